package alpine_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/fetch"
)

// TestInspect inspects a release whose files were downloaded whole, and damaged ones.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	download := func(client *fetch.Client, f fetch.File) (name string, content []byte) {
		t.Helper()
		name, err := client.Get(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return name, read(t, name)
	}
	inspect := func(name string, content []byte, pins ...alpine.Pins) (alpine.Download, error) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return alpine.Inspect(t.Context(), file, pins, nil)
	}
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		pins, client := lab.AlpineRelease(t, arch)
		name, iso := download(client, pins.ISO)
		rootName, root := download(client, pins.Root)
		name, rootName = filepath.Base(name), filepath.Base(rootName)

		release := lab.DebianKernel(t, string(arch)).Release
		if d, err := inspect("renamed.iso", iso, pins); err != nil || d.Pinned != name || d.Kernel != release || d.Modules < 500 || d.Arch != arch {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if d, err := inspect(rootName, root, pins); err != nil || d.Release != pins.Version || d.Pinned != rootName {
			t.Errorf("%s: %+v, %v", rootName, d, err)
		}

		flipped := bytes.Clone(iso)
		flipped[len(flipped)/2] ^= 1
		for what, c := range map[string]struct {
			name    string
			content []byte
			pins    alpine.Pins
			want    string
		}{
			"cut short":          {name, iso[:len(iso)/2], pins, "are pinned for " + name},
			"a flipped bit":      {name, flipped, pins, pins.ISO.SHA256.String()},
			"a root, cut":        {rootName, root[:len(root)/2], pins, "are pinned for " + rootName},
			"no ISO image":       {name, root, alpine.Pins{ISO: pins.Root, Arch: arch}, "ISO 9660"},
			"no archive":         {rootName, iso, alpine.Pins{Root: pins.ISO, Arch: arch}, "read archive"},
			"not of the release": {"x.iso", iso, alpine.Pins{ISO: fetch.File{URL: "https://host/" + "y.iso"}}, "none of the pinned files"},
		} {
			_, err := inspect(c.name, c.content, c.pins)
			if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v; want %q", arch, what, err, c.want)
			}
		}
	}
	if _, err := alpine.Inspect(t.Context(), filepath.Join(dir, "none.iso"), alpine.AllPinned(), nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a missing file: %v", err)
	}
	if got := path.Base(alpine.AllPinned()[1].ISO.URL); got != "alpine-virt-3.24.1-aarch64.iso" {
		t.Error(got)
	}
}

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
		other := pins
		other.Arch = vm.AMD64
		if arch == vm.AMD64 {
			other.Arch = vm.ARM64
		}
		name, iso := download(client, pins.ISO)
		rootName, root := download(client, pins.Root)
		name, rootName = filepath.Base(name), filepath.Base(rootName)

		release := lab.DebianKernel(t, string(arch)).Release
		if d, err := inspect("renamed.iso", iso, pins); err != nil || d.Pinned != name || d.Kernel != release || d.Modules < 500 || d.Arch != arch || len(d.Problems) > 0 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		alpineRoot := lab.AlpineRoot(t, string(arch)) != ""
		if d, err := inspect(rootName, root, pins); alpineRoot && (err != nil || d.Release != "3.20.3") {
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
			"cut, unreadable":    {name, iso[:len(iso)/2], pins, "cut short: it ends before boot/"},
			"a flipped bit":      {name, flipped, pins, pins.ISO.SHA256.String()},
			"of the other kind":  {name, iso, other, "it is "},
			"a root, cut":        {rootName, root[:len(root)/2], pins, "unexpected EOF"},
			"no ISO image":       {name, root[:1000], pins, "ISO 9660"},
			"not of the release": {"x.iso", iso, alpine.Pins{ISO: fetch.File{URL: "https://host/" + "y.iso"}}, "none of the pinned files"},
		} {
			d, err := inspect(c.name, c.content, c.pins)
			if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" || !strings.Contains(strings.Join(d.Problems, "\n"), c.want) {
				t.Errorf("%s, %s: %q, %v; want %q", arch, what, d.Problems, err, c.want)
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

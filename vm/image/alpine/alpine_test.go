package alpine_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

func TestPinned(t *testing.T) {
	for arch, machine := range map[vm.Arch]string{vm.AMD64: "x86_64", vm.ARM64: "aarch64"} {
		pins, err := alpine.Pinned(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []fetch.File{pins.ISO, pins.Root} {
			u, err := url.Parse(f.URL)
			if err != nil || u.Scheme != "https" || u.Host != "dl-cdn.alpinelinux.org" || !strings.Contains(u.Path, "/releases/"+machine+"/") ||
				!strings.Contains(path.Base(u.Path), pins.Version+"-"+machine) || f.SHA256.IsZero() {
				t.Errorf("%s pins %+v", arch, f)
			}
		}
	}
	if _, err := alpine.Pinned("riscv64"); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("Pinned(riscv64) = %v", err)
	}
}

func build(t testing.TB, pins alpine.Pins, client *fetch.Client) (pack.Pack, error) {
	s := pack.Store{Dir: t.TempDir()}
	return s.Build(t.Context(), pins.Name(), nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		return alpine.Build(ctx, pins, client, dir, progress.Func(func(progress.Event) {}))
	})
}

func TestBuild(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		pins, client := lab.AlpineRelease(t, arch)
		p, err := build(t, pins, client)
		if err != nil {
			t.Fatal(err)
		}
		k := lab.DebianKernel(t, string(arch))
		if got, want := sha256.Sum256(read(t, p.Path(p.Manifest.Kernel))), sha256.Sum256(read(t, k.Image)); got != want {
			t.Errorf("%s: the kernel is not the one that was packed", arch)
		}
		if got, want := sha256.Sum256(read(t, p.Path(p.Manifest.Root))), sha256.Sum256(read(t, lab.RootArchive(t, string(arch)))); got != want {
			t.Errorf("%s: the root is not the release's", arch)
		}
		checkModules(t, p, k)
	}
}

// checkModules compares a sample of the pack's modules with the kernel's.
func checkModules(t testing.TB, p pack.Pack, k lab.Kernel) {
	t.Helper()
	modules := 0
	err := p.Walk(t.Context(), p.Manifest.Modules, func(h *tar.Header, content io.Reader) error {
		file, ok := strings.CutPrefix(h.Name, "lib/modules/"+k.Release+"/")
		if !ok && h.Typeflag == tar.TypeReg {
			t.Errorf("the archive has %s", h.Name)
		}
		if strings.HasSuffix(file, ".ko") {
			if modules++; modules%20 != 0 {
				return nil // a sample is enough
			}
			if got, err := io.ReadAll(content); err != nil || !bytes.Equal(got, read(t, filepath.Join(k.Modules, file))) {
				t.Errorf("%s is not the module that was packed (%v)", file, err)
			}
		}
		return nil
	})
	if err != nil || modules < 500 {
		t.Errorf("there are %d modules, %v", modules, err)
	}
}

func TestRejectsOtherRelease(t *testing.T) {
	pins, client := lab.AlpineRelease(t, vm.AMD64)
	wrongArch := pins
	wrongArch.Arch = vm.ARM64
	if _, err := build(t, wrongArch, client); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "bzImage") {
		t.Errorf("the other architecture's kernel: %v, want rejected", err)
	}
	wrongRoot := pins
	wrongRoot.Root.SHA256[0] ^= 1
	client.Dir = t.TempDir()
	if _, err := build(t, wrongRoot, client); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), wrongRoot.Root.SHA256.String()) {
		t.Errorf("another root: %v, want rejected", err)
	}
	swapped := pins
	swapped.ISO = pins.Root
	if _, err := build(t, swapped, client); err == nil || !strings.Contains(err.Error(), "ISO 9660") {
		t.Errorf("no ISO image: %v", err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

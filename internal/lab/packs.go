package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
)

// DebianPack returns the pack made from this host's package archives for its architecture.
// The first call takes a minute.
func DebianPack(t testing.TB) pack.Pack {
	t.Helper()
	return DebianPackFor(t, vm.HostArch())
}

// DebianPackFor is DebianPack for another architecture. It skips the test on hosts that cannot
// run its programs.
func DebianPackFor(t testing.TB, arch vm.Arch) pack.Pack {
	t.Helper()
	name, err := debian.Name(arch)
	if err != nil {
		t.Fatal(err)
	}
	if err := debian.Available(arch); arch != vm.HostArch() && err != nil {
		t.Skip(err)
	}
	return labPack(t, name+"-npm", func(ctx context.Context, dir string) (pack.Manifest, error) { // a new name for new contents
		return debian.Build(ctx, arch, &fetch.Client{Dir: filepath.Join(labDir(t), "downloads")}, dir, nil)
	})
}

// AlpinePack returns a pack of Alpine's root file system with a Debian kernel, or false if
// AlpineRoot is missing.
func AlpinePack(t testing.TB, arch string) (pack.Pack, bool) {
	t.Helper()
	root := AlpineRoot(t, arch)
	if root == "" {
		return pack.Pack{}, false
	}
	return labPack(t, "alpine-3.20.3-debian-kernel-"+arch+"-"+guestModulesKey(), func(ctx context.Context, dir string) (pack.Manifest, error) {
		k := DebianKernel(t, arch)
		return pack.Manifest{
			Distribution: "alpine", Version: "3.20.3", Arch: vm.Arch(arch), PackageTool: pack.APK,
			Kernel: pack.File{Name: "kernel"}, Modules: pack.File{Name: "modules.tar.zst"}, Root: pack.File{Name: "root.tar.gz"},
			Origins: []pack.Origin{{Name: filepath.Base(root)}, {Name: filepath.Base(k.Image)}},
		}, errors.Join(copyFile(k.Image, filepath.Join(dir, "kernel")), copyFile(root, filepath.Join(dir, "root.tar.gz")), guestModules(ctx, k, filepath.Join(dir, "modules.tar.zst")))
	}), true
}

// ReleasePack returns a pack made from AlpineRelease. It belongs to this checkout, whose
// code makes it. If fresh is set, it is made again.
func ReleasePack(t testing.TB, arch vm.Arch, fresh bool) pack.Pack {
	t.Helper()
	pins, client := AlpineRelease(t, arch)
	store := pack.Store{Dir: filepath.Join(Root(t), ".build", "packs")}
	if fresh {
		if err := store.Remove(t.Context(), pins.Name()); err != nil && fault.KindOf(err) != fault.NotFound {
			t.Fatal(err)
		}
	}
	p, err := store.Build(t.Context(), pins.Name(), nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		return alpine.Build(ctx, pins, client, dir, nil)
	})
	if err != nil {
		t.Fatalf("lab: pack %s: %v", pins.Name(), err)
	}
	return p
}

func labPack(t testing.TB, name string, fill func(context.Context, string) (pack.Manifest, error)) pack.Pack {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	p, err := pack.Store{Dir: filepath.Join(labDir(t), "packs")}.Build(ctx, name, nil, fill)
	if err != nil {
		t.Fatalf("lab: pack %s: %v", name, err)
	}
	return p
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/depmod"
	"osaurus-sandbox/vm/image/pack"
)

// DebianPack returns the pack that is made of this host's package archives,
// for the host's own architecture. The first time takes a minute.
func DebianPack(t testing.TB) pack.Pack {
	t.Helper()
	arch := vm.HostArch()
	name, err := debian.Name(arch)
	if err != nil {
		t.Fatal(err)
	}
	return labPack(t, name, func(ctx context.Context, dir string) (pack.Manifest, error) {
		return debian.Build(ctx, arch, dir, nil)
	})
}

// AlpinePack returns a pack of Alpine's root file system (see AlpineRoot) with
// a Debian kernel, and false where there is no such root.
func AlpinePack(t testing.TB, arch string) (pack.Pack, bool) {
	t.Helper()
	root := AlpineRoot(t, arch)
	if root == "" {
		return pack.Pack{}, false
	}
	return labPack(t, "alpine-3.20.3-debian-kernel-"+arch, func(_ context.Context, dir string) (pack.Manifest, error) {
		k := DebianKernel(t, arch)
		return pack.Manifest{
			Distribution: "alpine", Version: "3.20.3", Arch: vm.Arch(arch), PackageTool: pack.APK,
			Kernel: pack.File{Name: "kernel"}, Modules: pack.File{Name: "modules.tar.zst"}, Root: pack.File{Name: "root.tar.gz"},
			Origins: []pack.Origin{{Name: filepath.Base(root)}, {Name: filepath.Base(k.Image)}},
		}, errors.Join(copyFile(k.Image, filepath.Join(dir, "kernel")), copyFile(root, filepath.Join(dir, "root.tar.gz")), modulesArchive(k, filepath.Join(dir, "modules.tar.zst")))
	}), true
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

// modulesArchive packs a kernel's modules.
func modulesArchive(k Kernel, path string) error {
	return pack.WriteZstd(path, "", nil, func(w io.Writer) error {
		out := tar.NewWriter(w)
		write := func(name string, b []byte) error {
			err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "lib/modules/" + k.Release + "/" + name, Size: int64(len(b)), Mode: 0o644})
			if err == nil {
				_, err = out.Write(b)
			}
			return err
		}
		return errors.Join(k.EachModuleFile(write), out.Close())
	})
}

// EachModuleFile calls write for every file of a kernel's modules, and then for
// the modules.dep and modules.softdep that Debian leaves to its depmod.
func (k Kernel) EachModuleFile(write func(name string, b []byte) error) error {
	var index depmod.Index
	modules := os.DirFS(k.Modules)
	err := fs.WalkDir(modules, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := fs.ReadFile(modules, name)
		if err != nil {
			return err
		}
		if depmod.IsModule(name) {
			err = index.Add(name, bytes.NewReader(b))
		}
		return errors.Join(err, write(name, b))
	})
	dep, noDep := index.Dep()
	return errors.Join(err, noDep, write("modules.dep", dep), write("modules.softdep", index.Softdep()))
}

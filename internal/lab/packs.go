package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/lock"
	"osaurus-sandbox/vm/image/pack"
)

// BusyboxPack returns the smallest pack that boots to a shell: Debian's kernel
// for an architecture ("amd64", "arm64"), and nothing but busybox. It is made
// once for all test processes.
func BusyboxPack(t testing.TB, arch string) pack.Pack {
	t.Helper()
	root, err := busyboxRoot(Busybox(t, arch))
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	return debianKernelPack(t, pack.Manifest{Name: "busybox-" + arch, Distribution: "busybox", Version: "1", Arch: vm.Arch(arch), PackageTool: pack.APK}, "root.tar", root)
}

// AlpinePack returns a pack of Alpine's real root file system over Debian's
// kernel, and whether there is one: see AlpineRoot.
func AlpinePack(t testing.TB, arch string) (pack.Pack, bool) {
	t.Helper()
	path := AlpineRoot(t, arch)
	if path == "" {
		return pack.Pack{}, false
	}
	root, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	return debianKernelPack(t, pack.Manifest{Name: "alpine-" + alpineVersion + "-" + arch, Distribution: "alpine", Version: alpineVersion, Arch: vm.Arch(arch), PackageTool: pack.APK}, "root.tar.gz", root), true
}

// debianKernelPack makes a pack of a root file system and Debian's kernel.
func debianKernelPack(t testing.TB, m pack.Manifest, rootName string, root []byte) pack.Pack {
	t.Helper()
	kernel := DebianKernel(t, string(m.Arch))
	dir := filepath.Join(labDir(t), string(m.Arch), m.Name+"-"+kernel.Release)
	held, err := lock.Acquire(t.Context(), dir+".lock", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if p, err := pack.Open(dir); err == nil {
		return p
	}
	m.Kernel, m.Modules, m.Root = pack.File{Name: "kernel"}, pack.File{Name: "modules.tar"}, pack.File{Name: rootName}
	if err := makePack(t.Context(), m, kernel, root, dir); err != nil {
		t.Fatalf("lab: %v", err)
	}
	p, err := pack.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func makePack(ctx context.Context, m pack.Manifest, kernel Kernel, root []byte, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "pack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	image, err := os.ReadFile(kernel.Image)
	if err != nil {
		return err
	}
	modules, err := moduleTar(kernel)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{m.Kernel.Name: image, m.Root.Name: root, m.Modules.Name: modules} {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o644); err != nil {
			return err
		}
	}
	if _, err := pack.Seal(ctx, tmp, m); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// applets are the names that busybox goes by in the pack.
const applets = "sh cat cp dd echo env head id kill ls mkdir mount rm seq sleep stat sync touch true uname wc yes"

func busyboxRoot(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	return archive(func(w *tar.Writer) error {
		for _, d := range []string{"bin/", "etc/", "mnt/", "root/", "tmp/"} {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}); err != nil {
				return err
			}
		}
		if err := addFile(w, "bin/busybox", 0o755, program); err != nil {
			return err
		}
		for name := range strings.FieldsSeq(applets) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}); err != nil {
				return err
			}
		}
		return addFile(w, "etc/os-release", 0o644, []byte("ID=busybox\nPRETTY_NAME=Busybox\n"))
	})
}

func moduleTar(kernel Kernel) ([]byte, error) {
	return archive(func(w *tar.Writer) error {
		return filepath.WalkDir(kernel.Modules, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return addFile(w, "lib/modules/"+kernel.Release+strings.TrimPrefix(path, kernel.Modules), 0o644, data)
		})
	})
}

func archive(fill func(*tar.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := fill(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func addFile(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

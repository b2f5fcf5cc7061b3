package lab

import (
	"archive/tar"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// BusyboxPack returns the smallest pack that boots to a shell: Debian's kernel for an
// architecture ("amd64", "arm64") and busybox.
func BusyboxPack(t testing.TB, arch string) pack.Pack {
	t.Helper()
	return labPack(t, "busybox-debian-kernel-"+arch+"-"+guestModulesKey(), func(ctx context.Context, dir string) (pack.Manifest, error) {
		k := DebianKernel(t, arch)
		return pack.Manifest{
			Distribution: "busybox", Version: k.Release, Arch: vm.Arch(arch), PackageTool: pack.APK,
			Kernel: pack.File{Name: "kernel"}, Modules: pack.File{Name: "modules.tar.zst"}, Root: pack.File{Name: "root.tar"},
		}, errors.Join(copyFile(k.Image, filepath.Join(dir, "kernel")), guestModules(ctx, k, filepath.Join(dir, "modules.tar.zst")), busyboxRoot(Busybox(t, arch), filepath.Join(dir, "root.tar")))
	})
}

// applets are the commands of busybox in the pack.
const applets = "sh cat cp dd echo env head id kill ls mkdir mount rm seq setsid sleep stat sync touch true uname wc yes"

func busyboxRoot(busybox, path string) error {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write(data)
		}
	}
	for _, d := range []string{"bin/", "etc/", "mnt/", "root/", "tmp/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for name := range strings.FieldsSeq(applets) {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/os-release", Mode: 0o644}, []byte("ID=busybox\nPRETTY_NAME=Busybox\n"))
	return errors.Join(err, w.Close(), f.Close())
}

package debian

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/untar"
)

// kernelFiles extracts the kernel and its modules from packages.
type kernelFiles struct {
	arch    vm.Arch
	kernel  string      // where to write it
	modules *tar.Writer // of lib/modules/RELEASE
	release string
}

func (k *kernelFiles) add(h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(h.Name, "usr/") // in newer releases
	if release, ok := strings.CutPrefix(name, "boot/vmlinuz-"); ok && h.Typeflag == tar.TypeReg {
		if k.release != "" {
			return fmt.Errorf("there are two kernels, %s and %s", k.release, release)
		}
		k.release = release
		return kernel.Write(k.arch, content, k.kernel)
	}
	if !strings.HasPrefix(name, "lib/modules/") || h.Typeflag != tar.TypeReg {
		return nil // untar adds missing folders
	}
	err := k.modules.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: h.Size, Mode: 0o644, ModTime: time.Unix(buildTime, 0), Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(k.modules, content)
	}
	return err
}

// makeKernel writes the kernel and an archive of its modules from packages.
func makeKernel(ctx context.Context, arch vm.Arch, debs []string, kernelPath string, modules io.Writer) error {
	k := &kernelFiles{arch: arch, kernel: kernelPath, modules: tar.NewWriter(modules)}
	for _, deb := range slices.Sorted(slices.Values(debs)) {
		unpack := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
		err := pipe(ctx, unpack, func(out io.Reader) error { return untar.Walk(out, filepath.Base(deb), k.add) })
		if err != nil {
			return err
		}
	}
	if k.release == "" {
		return errors.New("there is no kernel in its packages")
	}
	return k.modules.Close()
}

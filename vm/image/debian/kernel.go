package debian

import (
	"archive/tar"
	"bytes"
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
	index   kernel.ModuleIndex
	release string
}

// addPackage adds the files of a package.
func (k *kernelFiles) addPackage(ctx context.Context, deb string) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
		cmd.Stdout = w
		err := runCommand(ctx, cmd)
		w.CloseWithError(err)
		done <- err
	}()
	err := untar.Walk(r, filepath.Base(deb), k.add)
	r.CloseWithError(err) // ends dpkg-deb
	if ran := <-done; err == nil {
		err = ran
	}
	return err
}

func (k *kernelFiles) add(h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(h.Name, "usr/") // in newer releases
	if release, ok := strings.CutPrefix(name, "boot/vmlinuz-"); ok && h.Typeflag == tar.TypeReg {
		return k.addKernel(release, content)
	}
	rest, ok := strings.CutPrefix(name, "lib/modules/")
	if !ok || h.Typeflag != tar.TypeReg {
		return nil // untar adds missing folders
	}
	_, file, _ := strings.Cut(rest, "/")
	var b bytes.Buffer
	if _, err := io.Copy(&b, content); err != nil {
		return err
	}
	if err := k.index.Add(file, bytes.NewReader(b.Bytes())); err != nil {
		return err
	}
	return k.write(name, b.Bytes())
}

func (k *kernelFiles) addKernel(release string, content io.Reader) error {
	if k.release != "" {
		return fmt.Errorf("there are two kernels, %s and %s", k.release, release)
	}
	k.release = release
	return kernel.Write(k.arch, content, k.kernel)
}

func (k *kernelFiles) write(name string, b []byte) error {
	err := k.modules.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)), Mode: 0o644, ModTime: time.Unix(buildTime, 0), Format: tar.FormatPAX})
	if err == nil {
		_, err = k.modules.Write(b)
	}
	return err
}

// finish writes the lists that depmod would write.
func (k *kernelFiles) finish() error {
	if k.release == "" {
		return errors.New("there is no kernel in its packages")
	}
	dep, err := k.index.Dep()
	if err != nil {
		return err
	}
	dir := "lib/modules/" + k.release + "/"
	return errors.Join(k.write(dir+"modules.dep", dep), k.write(dir+"modules.softdep", k.index.Softdep()), k.modules.Close())
}

// makeKernel writes the kernel and an archive of its modules from packages.
func makeKernel(ctx context.Context, arch vm.Arch, debs []string, kernelPath string, modules io.Writer) error {
	k := &kernelFiles{arch: arch, kernel: kernelPath, modules: tar.NewWriter(modules)}
	for _, deb := range slices.Sorted(slices.Values(debs)) {
		if err := k.addPackage(ctx, deb); err != nil {
			return err
		}
	}
	return k.finish()
}

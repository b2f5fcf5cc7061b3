// Package lab provides real Linux kernels, modules and programs for tests. It fetches them once from Debian's archive and keeps them in .build/lab.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/debian"
)

// makeTimeout is long, because the first fetch downloads package lists and 40 MB, and
// others may wait for it on a busy machine.
const makeTimeout = 15 * time.Minute

// Kernel is a Debian cloud kernel.
type Kernel struct {
	Image   string // bzImage (amd64) or plain Image (arm64)
	Modules string // the directory lib/modules/RELEASE
	Release string
}

// DebianKernel returns the kernel for an architecture ("amd64", "arm64").
func DebianKernel(t testing.TB, arch string) Kernel {
	t.Helper()
	dir := debianPackage(t, arch, "kernel", "linux-image-cloud-"+arch)
	images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if len(images) != 1 {
		t.Fatalf("lab: %d kernels in %s", len(images), dir)
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	return Kernel{Image: images[0], Modules: filepath.Join(dir, "lib", "modules", release), Release: release}
}

// Busybox returns a statically linked busybox for an architecture.
func Busybox(t testing.TB, arch string) string {
	t.Helper()
	return filepath.Join(debianPackage(t, arch, "busybox", "busybox-static"), "bin", "busybox")
}

// AlpineRoot returns the archive of Alpine's root file system for an architecture, or ""
// if it is missing, which it logs. It looks in $OSAURUS_ALPINE, or in ../shared/alpine
// beside the project.
func AlpineRoot(t testing.TB, arch string) string {
	t.Helper()
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	dir := cmp.Or(os.Getenv("OSAURUS_ALPINE"), filepath.Join(Root(t), "..", "shared", "alpine"))
	p := filepath.Join(dir, "alpine-minirootfs-3.20.3-"+machine+".tar.gz")
	if _, err := os.Stat(p); err != nil {
		t.Logf("\n*** NO ALPINE ROOT FILE SYSTEM for %s: %v\n*** %s runs without it, with busybox if possible.", arch, err, t.Name())
		return ""
	}
	return p
}

// Root returns the top folder of the project.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == "/" {
			t.Fatal("lab: no go.mod above the working directory")
		}
	}
}

// debianPackage downloads a Debian package for an architecture and unpacks it.
func debianPackage(t testing.TB, arch, name, pkg string) string {
	return once(t, arch, name, func(ctx context.Context, temp string) (string, error) {
		debs, err := debian.Download(ctx, vm.Arch(arch), pkg, temp)
		if err != nil {
			return "", err
		}
		out := filepath.Join(temp, "x")
		for _, deb := range debs {
			if text, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, out).CombinedOutput(); err != nil {
				return "", fmt.Errorf("%w: %s", err, text)
			}
		}
		return out, nil
	})
}

// once makes a file or folder in the lab's folder for an architecture, once for all test
// processes. make returns its path in a temporary folder.
func once(t testing.TB, arch, name string, make func(ctx context.Context, temp string) (string, error)) string {
	t.Helper()
	out, err := try(t, arch, name, make)
	if err != nil {
		t.Fatalf("lab: %s for %s: %v\n%s", name, arch, err, fault.AdviceOf(err))
	}
	return out
}

// try is once for things that tests may do without.
func try(t testing.TB, arch, name string, make func(ctx context.Context, temp string) (string, error)) (string, error) {
	t.Helper()
	dir := filepath.Join(labDir(t), arch)
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	unlock, err := config.Lock(ctx, filepath.Join(dir, name+".lock"), nil)
	if err != nil {
		return "", err
	}
	defer unlock()
	out := filepath.Join(dir, name)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	temp, err := os.MkdirTemp(dir, "temp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	made, err := make(ctx, temp)
	if err != nil {
		return "", err
	}
	return out, os.Rename(made, out)
}

// labDir returns the folder of the lab. It skips tests with -short: everything in it is big.
func labDir(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("lab: whole kernels and packs, not with -short")
	}
	if dir := os.Getenv("OSAURUS_LAB"); dir != "" {
		return dir
	}
	return filepath.Join(Root(t), ".build", "lab")
}

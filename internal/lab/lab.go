// Package lab gives tests what cannot be made up: real Linux kernels with their modules and real programs, fetched once from Debian's archive and kept under .build/lab.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fetchTimeout is long because a first fetch brings package lists and 40 MB.
const fetchTimeout = 10 * time.Minute

// alpineVersion is the release whose root file system lies in the shared folder.
const alpineVersion = "3.20.3"

// Kernel is a Debian cloud kernel.
type Kernel struct {
	Image   string // bzImage (amd64) or plain Image (arm64)
	Modules string // the directory lib/modules/RELEASE
	Release string
}

// DebianKernel returns the kernel for an architecture ("amd64", "arm64").
func DebianKernel(t testing.TB, arch string) Kernel {
	t.Helper()
	dir := fetch(t, arch, "kernel", "linux-image-cloud-"+arch)
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
	return filepath.Join(fetch(t, arch, "busybox", "busybox-static"), "bin", "busybox")
}

// AlpineRoot returns the Alpine root file system archive for an architecture,
// or "" with a loud log line where the shared folder is not beside the project.
func AlpineRoot(t testing.TB, arch string) string {
	t.Helper()
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	p := filepath.Join(Root(t), "..", "shared", "alpine", "alpine-minirootfs-"+alpineVersion+"-"+machine+".tar.gz")
	if _, err := os.Stat(p); err != nil {
		t.Logf("\n*** NO ALPINE ROOT FILE SYSTEM for %s: %v\n*** The Alpine cases of %s do not run.", arch, err, t.Name())
		return ""
	}
	return p
}

// Root is the top folder of the project.
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

// labDir is where everything is kept.
func labDir(t testing.TB) string {
	if dir := os.Getenv("OSAURUS_LAB"); dir != "" {
		return dir
	}
	return filepath.Join(Root(t), ".build", "lab")
}

// fetch downloads a Debian package (through the one dependency of a
// meta-package) for an architecture and unpacks it, once for all test
// processes. It needs neither root nor a package list of the host's.
func fetch(t testing.TB, arch, name, pkg string) string {
	t.Helper()
	dir := filepath.Join(labDir(t), arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	if err := download(ctx, arch, pkg, dir, out); err != nil {
		t.Fatalf("lab: %s for %s: %v", pkg, arch, err)
	}
	return out
}

func download(ctx context.Context, arch, pkg, dir, out string) error {
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(tmp, d), 0o755); err != nil {
			return err
		}
	}
	apt := func(tool string, args ...string) (string, error) {
		args = append([]string{"-oAPT::Architecture=" + arch, "-oAPT::Architectures=" + arch, "-oAPT::Sandbox::User=",
			"-oDir::State::Lists=" + tmp + "/lists", "-oDir::Cache=" + tmp + "/cache", "-qq"}, args...)
		return run(ctx, tmp, tool, args...)
	}
	if _, err := apt("apt-get", "update"); err != nil {
		return err
	}
	depends, err := apt("apt-cache", "depends", pkg)
	if err != nil {
		return err
	}
	for line := range strings.Lines(depends) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			pkg = "linux-image-" + d
		}
	}
	if _, err := apt("apt-get", "download", pkg); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("%d packages were downloaded", len(debs))
	}
	if _, err := run(ctx, tmp, "dpkg-deb", "-x", debs[0], filepath.Join(tmp, "x")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "x"), out)
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, e.Stderr)
	}
	return string(out), err
}

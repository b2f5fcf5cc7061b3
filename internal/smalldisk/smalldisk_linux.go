// Package smalldisk runs tests on a small disk that they can fill and write-protect.
package smalldisk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside names the test that the process with the disk runs.
const inside = "OSAURUS_SMALLDISK"

// Disk is a file system in memory.
type Disk struct {
	Dir string // where it is mounted
	t   testing.TB
}

// Run runs a top-level test on a disk of this size, in a process with its own mount
// namespace, which removes the disk at its end. It needs root or user namespaces.
func Run(t *testing.T, size string, test func(*Disk)) {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		test(mount(t, size))
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Fatalf("%v: a test that fills a disk needs a mount of its own: run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func mount(t testing.TB, size string) *Disk {
	d := &Disk{Dir: t.TempDir(), t: t}
	d.check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	d.check(unix.Mount("tmpfs", d.Dir, "tmpfs", 0, "mode=0700,size="+size))
	t.Cleanup(func() { d.check(unix.Unmount(d.Dir, unix.MNT_DETACH)) })
	return d
}

func (d *Disk) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *Disk) ballast() string { return filepath.Join(d.Dir, ".ballast") }

// Fill uses all free space.
func (d *Disk) Fill() {
	d.t.Helper()
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	d.check(err)
	defer file.Close()
	for _, size := range []int{64 << 10, 4 << 10} {
		for err = nil; err == nil; _, err = file.Write(make([]byte, size)) {
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatal(err)
		}
	}
}

// Free undoes Fill.
func (d *Disk) Free() {
	d.t.Helper()
	d.check(os.Remove(d.ballast()))
}

// ReadOnly turns write protection on or off. No file may be open for writing.
func (d *Disk) ReadOnly(on bool) {
	d.t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if on {
		flags |= unix.MS_RDONLY
	}
	d.check(unix.Mount("tmpfs", d.Dir, "tmpfs", flags, ""))
}

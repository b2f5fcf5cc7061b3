// Package smalldisk gives a test a disk of its own that it can fill and write-protect.
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

// inside names the test that is run on a disk of its own, in the process that
// has the disk.
const inside = "OSAURUS_SMALLDISK"

// Disk is a file system in memory.
type Disk struct {
	Dir string // where it is mounted
	t   testing.TB
}

// Run runs a top-level test on a disk of so many bytes, in a process with a
// mount namespace of its own: nothing that it mounts outlives it. It needs to
// be root or to be allowed user namespaces, and fails otherwise.
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

// Fill leaves no room at all.
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

// Free makes room again.
func (d *Disk) Free() {
	d.t.Helper()
	d.check(os.Remove(d.ballast()))
}

// ReadOnly write-protects the disk, on which no file may be open for writing,
// or lifts the protection.
func (d *Disk) ReadOnly(on bool) {
	d.t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if on {
		flags |= unix.MS_RDONLY
	}
	d.check(unix.Mount("tmpfs", d.Dir, "tmpfs", flags, ""))
}

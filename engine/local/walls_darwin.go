package local

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// seatbelt runs a program under a Seatbelt profile.
const seatbelt = "/usr/bin/sandbox-exec"

// adopts is false: orphans become children of launchd.
const adopts = false

// mostCore is the limit of the size of core files.
const mostCore = 0

// selfProgram returns the real path of this program, since Seatbelt compares real paths.
func selfProgram() string {
	path, _ := os.Executable()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// childProgram returns what the monitor starts. The child is confined from its start, in a
// process group of its own.
func childProgram(c spec) ([]string, *syscall.SysProcAttr) {
	return []string{
		seatbelt, seatbelt, "-D", "WORKSPACE=" + c.Workspace, "-D", "SCRATCH=" + c.Scratch, "-D", "SELF=" + selfProgram(),
		"-p", profile(c), selfProgram(), childName,
	}, &syscall.SysProcAttr{Setpgid: true}
}

// holdAll does nothing: the command is in a process group.
func holdAll() error { return nil }

func signalAll(pid int, sig syscall.Signal) error { return unix.Kill(-pid, sig) }

// confine does nothing: the child is confined from its start.
func confine(spec) error { return nil }

func confineCalls(spec) error { return nil }

package local

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// seatbelt runs a program under a Seatbelt profile.
const seatbelt = "/usr/bin/sandbox-exec"

// adopts is false: orphans become children of launchd.
const adopts = false

func available() error {
	if _, err := os.Stat(seatbelt); err != nil {
		return fault.New(fault.Unavailable, "make the UNSAFE local engine", seatbelt, err).Advise("Use a room.")
	}
	return nil
}

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
	args := []string{seatbelt, seatbelt, "-D", "WORKSPACE=" + c.Workspace, "-D", "SCRATCH=" + c.Scratch, "-D", "SELF=" + selfProgram()}
	for i, path := range c.Readable {
		args = append(args, "-D", "READABLE"+strconv.Itoa(i)+"="+path)
	}
	return append(args, "-p", profile(c), selfProgram(), childName), &syscall.SysProcAttr{Setpgid: true}
}

// holdAll does nothing: the command is in a process group.
func holdAll() error { return nil }

func signalAll(pid int, sig syscall.Signal) error { return unix.Kill(-pid, sig) }

// confine does nothing: the child is confined from its start.
func confine(spec) error { return nil }

func confineCalls(spec) error { return nil }

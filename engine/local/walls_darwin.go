package local

import (
	"errors"
	"os"
	"strconv"
	"strings"
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

// selfProgram returns the path of this program.
func selfProgram() string {
	path, _ := os.Executable()
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

// profile returns the Seatbelt profile. Paths are parameters, so they need no quoting.
func profile(c spec) string {
	var p strings.Builder
	p.WriteString(`(version 1)
(deny default)
(import "system.sb")
(allow process-fork)
(allow process-exec*)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read*
  (literal "/") (literal (param "SELF"))
  (subpath "/bin") (subpath "/sbin") (subpath "/usr") (subpath "/opt") (subpath "/System") (subpath "/Library/Developer")
  (subpath "/Library/Apple") (subpath "/private/etc/ssl") (subpath "/private/var/db/timezone") (subpath "/private/var/select")
  (literal "/private/etc/passwd") (literal "/private/etc/hosts") (literal "/private/etc/resolv.conf") (literal "/private/etc/services")
  (subpath "/dev/fd") (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (subpath (param "WORKSPACE")) (subpath (param "SCRATCH")))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-write* (subpath (param "SCRATCH")))
`)
	if !c.ReadOnly {
		p.WriteString("(allow file-write* (subpath (param \"WORKSPACE\")))\n")
	}
	for i := range c.Readable {
		p.WriteString("(allow file-read* (subpath (param \"READABLE" + strconv.Itoa(i) + "\")))\n")
	}
	if c.Network {
		p.WriteString("(allow network-outbound (remote ip))\n(allow network-inbound (local ip))\n(allow network-bind (local ip))\n(allow system-socket)\n")
	}
	return p.String()
}

// holdAll does nothing: the command is in a process group.
func holdAll() error { return nil }

func signalAll(pid int, sig syscall.Signal) error { return unix.Kill(-pid, sig) }

// confine does nothing: the child is confined from its start.
func confine(spec) error { return nil }

func confineCalls(spec) error { return nil }

// describe writes a spec to an unlinked file.
func describe(c spec) (*os.File, error) {
	f, err := os.CreateTemp("", "osaurus-local-child-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return encoded(c, f)
}

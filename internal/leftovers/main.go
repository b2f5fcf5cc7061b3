//go:build linux

// Command leftovers runs a command and fails if it leaves a process, a mount, a socket or a file behind.
//
// The command gets a temporary folder of its own ($TMPDIR). Every process that
// it starts, however it detaches itself, comes back to leftovers as its child
// when its parent dies, so none is missed and no stranger's is counted. What
// was left is named, and removed.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a process may take to end after the command has: the go
// tool itself has short-lived children.
const grace = 10 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: leftovers COMMAND [ARG...]")
		os.Exit(2)
	}
	code, left, err := run(os.Args[1:], grace)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		os.Exit(1)
	}
	for _, l := range left {
		fmt.Fprintln(os.Stderr, "left behind:", l)
	}
	if code == 0 && len(left) > 0 {
		code = 1
	}
	os.Exit(code)
}

// run runs a command and returns its exit code and what it left behind.
func run(argv []string, grace time.Duration) (code int, left []string, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, nil, err
	}
	// Short, because Unix sockets live in it.
	tmp, err := os.MkdirTemp("/tmp", "osaurus-test-")
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	// Some tests run programs as another user, who must get to what is theirs.
	if err := os.Chmod(tmp, 0o711); err != nil {
		return 0, nil, err
	}

	// Ctrl-C reaches the command by itself; what is passed on is what the
	// terminal does not send to the whole group.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGCHLD)
	defer signal.Stop(signals)

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				switch s {
				case syscall.SIGTERM:
					_ = cmd.Process.Signal(s) // it may just have ended
				case syscall.SIGCHLD:
					// Tests look whether a process is gone, and a zombie is not.
					reapOrphans(cmd.Process.Pid)
				}
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return 0, nil, err
	}
	code = cmd.ProcessState.ExitCode()
	if code < 0 {
		code = 1 // a signal ended it
	}
	left = append(left, endProcesses(grace)...)
	left = append(left, endMounts(tmp)...)
	left = append(left, files(tmp)...)
	return code, left, nil
}

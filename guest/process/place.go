//go:build linux

package process

import (
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Place is where a child runs, and as which user.
type Place interface {
	// Enter moves the calling thread into the place: namespaces, capabilities, no_new_privs,
	// seccomp. This cannot be undone, so the thread must end afterwards.
	Enter() error
	// Credential returns the user of the child. Nil is root with the capabilities that Enter has
	// left.
	Credential() *syscall.Credential
	// Cgroup returns the directory in which each child gets its own group.
	Cgroup() string
	// Mark returns what marks the children and their descendants, or "": see the function Mark. It must
	// not contain a slash.
	Mark() string
}

// As runs f while the calling thread accesses files as the user c, or root if c is nil. Use it for
// an agent's files: root must not follow paths there, and on a share the kernel caches owners as
// the first user sees them.
func As(c *syscall.Credential, f func() error) error {
	if c != nil {
		_ = syscall.Setfsgid(int(c.Gid)) // neither fails for root
		_ = syscall.Setfsuid(int(c.Uid))
		defer func() {
			_ = syscall.Setfsuid(0)
			_ = syscall.Setfsgid(0)
		}()
	}
	return f()
}

// maxStarting bounds the threads that start commands, which a share that hangs may keep: the Go runtime
// aborts at ten thousand threads.
const maxStarting = 1024

// onThread runs look and then fork on a new thread in the program's place. Entering and looking may
// block on a share and cannot be interrupted. After a timeout onThread returns; its thread then
// does not fork, and ends when the share answers.
func (m *Manager) onThread(s Spec, look, fork func() error) error {
	if n := m.starting.Add(1); n > maxStarting {
		m.starting.Add(-1)
		return fault.Newf(fault.Unavailable, "start program", s.Args[0], "%d other starts wait, most of them for a share that hangs", n-1).Advise("Try again later.")
	}
	var decided atomic.Bool // set by fork or by the timeout, whichever comes first
	done := make(chan error, 1)
	go func() {
		defer m.starting.Add(-1)
		// Never unlocked: the thread is in other namespaces and must end with the goroutine.
		runtime.LockOSThread()
		var err error
		if s.Place != nil {
			err = s.Place.Enter()
		}
		if err != nil {
			err = fault.New(fault.Unavailable, "enter place", "", err)
		} else {
			err = look()
		}
		if !decided.CompareAndSwap(false, true) {
			return
		}
		if err == nil {
			err = fork()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(m.patience):
	}
	if decided.CompareAndSwap(false, true) {
		return s.late(m.patience)
	}
	return <-done
}

// InNamespaces runs f on a new thread in the given kinds of namespaces of a process.
func InNamespaces(pidfd, kinds int, f func() error) error {
	return OnThread(func() error {
		// A thread can enter a mount namespace only if it does not share its root with other
		// threads.
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(pidfd, kinds)); err != nil {
			return err
		}
		return f()
	})
}

// OnThread calls f on a thread of its own, which ends with it.
func OnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

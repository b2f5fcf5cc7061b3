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

// Place says where a child runs, and as which user.
type Place interface {
	// Enter moves the calling thread into the place: namespaces, capabilities,
	// no_new_privs, seccomp. There is no way back: the thread ends afterwards.
	Enter() error
	// Credential is who the child becomes; nil is root, with what Enter left
	// of it.
	Credential() *syscall.Credential
	// Cgroup is the directory in which each child gets a group of its own.
	Cgroup() string
}

// Marked is a Place that marks its children and their descendants. Function Mark reads the mark of
// a process.
type Marked interface {
	// Mark has no slash; an empty one is none.
	Mark() string
}

func markOf(p Place) string {
	if m, ok := p.(Marked); ok {
		return m.Mark()
	}
	return ""
}

// As runs f while the calling thread accesses files as a user; nil is root. On a share the kernel
// caches owners as the first user sees them, and root must not follow paths among an agent's files.
func As(c *syscall.Credential, f func() error) error {
	if c != nil {
		_ = syscall.Setfsgid(int(c.Gid)) // these two never fail for root
		_ = syscall.Setfsuid(int(c.Uid))
		defer func() {
			_ = syscall.Setfsuid(0)
			_ = syscall.Setfsgid(0)
		}()
	}
	return f()
}

// maxStuck bounds the threads that wait for a share that hangs: the runtime ends a process of
// ten thousand threads.
const maxStuck = 256

// onThread runs look and then fork on a new thread that has entered the place of the program.
// To enter and to look may wait for a share, which nobody can interrupt: a start that takes too
// long is given up, and its thread forks nothing and ends when the share answers.
func (m *Manager) onThread(s Spec, look, fork func() error) error {
	m.mu.Lock()
	stuck := m.stuck
	m.mu.Unlock()
	if stuck >= maxStuck {
		return fault.Newf(fault.Unavailable, "start program", s.Args[0], "%d starts wait for a share that hangs", stuck).Advise("Try again later.")
	}
	var decided atomic.Bool // it forks, or it was given up
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread has left this process's namespaces and ends with the
		// goroutine.
		runtime.LockOSThread()
		err := s.Place.Enter()
		if err != nil {
			err = fault.New(fault.Unavailable, "enter place", "", err)
		} else {
			err = look()
		}
		if !decided.CompareAndSwap(false, true) {
			m.countStuck(-1)
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
	m.countStuck(1)
	if decided.CompareAndSwap(false, true) {
		return s.late(m.patience)
	}
	m.countStuck(-1)
	return <-done
}

func (m *Manager) countStuck(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stuck += n
}

// InNamespaces runs f on a new thread that has entered namespaces of a process.
func InNamespaces(pidfd, kinds int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		// The kernel lets a thread enter a mount namespace only if it shares its root with no other.
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(pidfd, kinds)); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

//go:build linux

package process

import (
	"runtime"
	"syscall"

	"osaurus-sandbox/fault"
)

// Place is where and as whom a child runs.
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

// onEntered runs f on a thread that has entered the place and dies with it.
func onEntered(p Place, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine. What
		// the first thread of a process enters it would keep, so PID 1 keeps
		// that for its main goroutine.
		runtime.LockOSThread()
		if err := p.Enter(); err != nil {
			done <- fault.New(fault.Unavailable, "enter place", "", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// as runs f with the calling thread touching files as a credential. On a share the
// kernel remembers owners as they are shown to who asks, and root has no
// business among the files of an agent.
func as(c *syscall.Credential, f func() error) error {
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

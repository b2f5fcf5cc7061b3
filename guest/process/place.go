//go:build linux

package process

import (
	"runtime"
	"syscall"
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
			done <- err
			return
		}
		if c := p.Credential(); c != nil {
			// Whatever is looked at, is looked at as who shall run: on a share
			// the kernel remembers owners as they are shown to who asks.
			_ = syscall.Setfsgid(int(c.Gid))
			_ = syscall.Setfsuid(int(c.Uid))
		}
		done <- f()
	}()
	return <-done
}

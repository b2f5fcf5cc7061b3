//go:build linux

package process

import "syscall"

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

// Marked is a Place all of whose children bear a mark, and all that they start: Mark
// finds it by a process.
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

// As runs f with the calling thread touching files as a credential; nil is root. On a
// share the kernel remembers owners as they are shown to who asks, and root has no
// business among the files of an agent.
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

//go:build linux

package room

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// place is a room as whom a command runs there. It is a process.Place.
type place struct {
	room *Room
	root bool
	// hidden keeps what runs out of the room's processes: nothing there sees it or can
	// stop it.
	hidden bool
}

// entered are the namespaces of a room that a command is in. Not the
// control group's: from inside one, the kernel refuses to start a child in a
// group that is outside of what the caller then sees.
const entered = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Enter moves the calling thread into the room.
func (p place) Enter() error {
	if err := p.join(); err != nil {
		return err
	}
	return p.confine()
}

// join moves the calling thread into the room's namespaces.
func (p place) join() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the other threads' root: %w", err)
	}
	namespaces := entered
	if p.hidden {
		namespaces &^= unix.CLONE_NEWPID
	}
	if err := unix.Setns(int(p.room.pidfd.Fd()), namespaces); err != nil {
		return fmt.Errorf("enter the room: %w", err)
	}
	return nil
}

// confine takes from the calling thread what nobody has in a room.
func (p place) confine() error {
	if err := p.dropCapabilities(); err != nil {
		return err
	}
	return p.room.filter.Install(false)
}

// dropCapabilities takes away what a program that the thread starts could get.
// An agent's program loses the rest when it stops being root.
func (p place) dropCapabilities() error {
	keep := uint64(0)
	if p.root {
		keep = rootCapabilities
	}
	if err := bound(keep); err != nil {
		return err
	}
	if !p.root {
		return nil
	}
	return hold(keep)
}

// Credential is the agent's user; root's is that of the thread.
func (p place) Credential() *syscall.Credential {
	if p.root {
		return nil
	}
	return &syscall.Credential{Uid: p.room.spec.Uid, Gid: p.room.spec.Uid}
}

// Cgroup is where the room's commands have their groups.
func (p place) Cgroup() string { return string(p.room.group) }

// Multiplexer is the room's own ptmx.
func (p place) Multiplexer() int { return int(p.room.ptmx.Fd()) }

// inits is the group of the first processes of rooms. They are in no room's own: one
// that is at its limit of processes or memory still has a first process that
// reaps. No user has a name with a dot.
const inits = ".init"

// threshold is the place from which they start: the guest's own root.
type threshold struct{ group group }

func (threshold) Enter() error                    { return nil }
func (threshold) Credential() *syscall.Credential { return nil }
func (t threshold) Cgroup() string                { return string(t.group) }

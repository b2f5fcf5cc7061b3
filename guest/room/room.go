//go:build linux

// Package room makes the rooms of agents: for each a user, a root, namespaces, limits and a filter of system calls, in which its commands run.
package room

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/seccomp"
)

// Room is a room that exists or has ended: see Dead. The garbage collector closes the descriptors
// that commands use.
type Room struct {
	spec        *guestpb.Room
	layer       string // its folder on the data disk
	files       string // its folder among the guest's own, in memory
	bridgeFiles bridgeFiles
	disk        *os.File
	group       group
	slot        int
	filter      seccomp.Program
	init        *process.Child
	pidfd       *os.File // of its first process
	ptmx        *os.File // O_PATH
	desk        *os.File // O_PATH
	memory      *os.File // memory.events of the group
	pids        *os.File // pids.events
	shell       string
	made        time.Time
	quota       bool // the disk counts
	anew        bool // its layer was begun on another base, and is gone
	lacks       []string
	starts      chan struct{} // one for each start that may be under way

	unsettled bool // its network may be another than the spec's
	lines     commandLines
}

// Place is where a command of the room runs: as its agent, or as its root.
func (r *Room) Place(root bool) process.Place { return place{room: r, root: root} }

// HiddenPlace is Place for a program of the guest's own that runs as the room's agent:
// it sees what the agent does and may no more, and the agent's processes do not see it.
func (r *Room) HiddenPlace() process.Place { return place{room: r, hidden: true} }

// maxStarts is how many commands of one room are being started at once. The rest
// of a crowd waits its turn, and leaves the guest's first process free to answer.
const maxStarts = 4

// Admit waits until one more command of the room may be started. When it has
// been, release must be called.
func (r *Room) Admit(ctx context.Context) (release func(), err error) {
	select {
	case r.starts <- struct{}{}:
		return func() { <-r.starts }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// User is the Linux user of the room's agent.
func (r *Room) User() string { return r.spec.User }

// Dead is closed when the room's first process has ended, and with it all
// others in it.
func (r *Room) Dead() <-chan struct{} { return r.init.Done() }

func (r *Room) dead() bool {
	select {
	case <-r.Dead():
		return true
	default:
		return false
	}
}

// Home is the agent's home, in the room and in the guest.
func (r *Room) Home() string { return r.spec.Home }

// Environment is that of a login, of the agent or of the room's root.
func (r *Room) Environment(root bool) []string {
	user, home, path := r.spec.User, r.spec.Home, r.spec.Home+"/.local/bin:"+protocol.SystemPath
	if root {
		user, home, path = "root", protocol.RootHome, protocol.SystemPath
	}
	return []string{"HOME=" + home, "USER=" + user, "LOGNAME=" + user, "SHELL=" + r.shell, "PATH=" + path, "LANG=C.UTF-8"}
}

// desk is where the guest's own files for a room's shells are, in the room's memory.
const desk = "/run/osaurus-shells"

// makeDesk makes that folder. Nothing of the agent has run in the room yet, so the
// path is what the first process has made.
func (r *Room) makeDesk() (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/root%s", r.init.PID(), desk)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// Desk opens a folder that is root's, that only this room sees, and that lies in
// memory. It also returns its path in the room.
func (r *Room) Desk() (*os.File, string, error) {
	fd, err := unix.FcntlInt(r.desk.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "open the room's folder for shells", r.spec.User, err)
	}
	return os.NewFile(uintptr(fd), desk), desk, nil
}

// jobLogs is where a room shows what its jobs write.
const jobLogs = "/run/osaurus-jobs"

// JobLogs returns the folder of the logs of jobs, in the guest and in the room. It is read-only in
// the room.
func (r *Room) JobLogs() (path, inside string) { return filepath.Join(r.layer, "jobs"), jobLogs }

// network gives the room the network that is asked for, instead of the one that it has.
func (r *Room) network(spec *guestpb.Room, o Options) error {
	if err := network.Disconnect(r.slot); err != nil || spec.Network == guestpb.Room_NETWORK_NONE {
		return err
	}
	<-o.ModulesLoaded
	if err := network.Connect(r.slot, spec.HostServices, r.init.PID(), int(r.pidfd.Fd())); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

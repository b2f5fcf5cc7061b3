//go:build linux

package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// first is the first process of a room. It has namespaces of its own, and makes the room in them
// when it is sent a plan.
type first struct {
	child *process.Child
	held  *os.File // the process itself, whatever becomes of its pid
	line  *os.File // to its input and from its output
}

// begin starts a first process.
func begin(o Options) (*first, error) {
	const op = "start the first process of a room"
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "", err)
	}
	f, theirs := &first{line: os.NewFile(uintptr(pair[0]), "room")}, os.NewFile(uintptr(pair[1]), "room")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = f.line.Close()
		return nil, fault.New(fault.Unavailable, op, "", err)
	}
	defer null.Close()
	f.child, err = o.Keeper.Start(process.Spec{
		Args: []string{o.Program, InitCommand}, Dir: "/",
		// One thread at a time and a small heap: it waits, and little else.
		Env:        []string{"GOMAXPROCS=1", "GOMEMLIMIT=8MiB", "GOTRACEBACK=none"},
		Files:      [3]uintptr{theirs.Fd(), theirs.Fd(), null.Fd()},
		Place:      threshold{group(filepath.Join(o.Cgroup, inits))},
		Namespaces: entered,
	})
	if err != nil {
		_ = f.line.Close()
		return nil, err
	}
	pidfd, err := unix.PidfdOpen(f.child.PID(), 0)
	if err == nil {
		f.held = os.NewFile(uintptr(pidfd), "room")
	}
	if err != nil || f.ended() { // then the pid may have been another's
		f.end()
		return nil, fault.New(fault.Execution, op, "", errors.Join(errors.New("it has ended"), err))
	}
	return f, nil
}

// ended says whether it is no more.
func (f *first) ended() bool {
	select {
	case <-f.child.Done():
		return true
	default:
		return false
	}
}

// end ends it, and with it all that is in its namespaces.
func (f *first) end() {
	f.child.Release()
	_ = f.line.Close()
}

// makePatience is how long the first process of a room may need for its mounts.
// Nothing of an agent runs before, so only the disk or a share can make it slow.
const makePatience = 30 * time.Second

// open has a first process make the room, and waits until it has.
func (r *Room) open(f *first, o Options) error {
	const op = "make room"
	r.init, r.pidfd = f.child, f.held
	defer f.line.Close()
	connected := make(chan error, 1)
	go func() { connected <- r.network(r.spec, o) }()
	err := errors.Join(r.plan(f.line, o), r.await(f.line), <-connected)
	if err != nil {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, err).Advise("Look at the guest's console log; `reset` gives the agent a fresh layer.")
	}
	r.ptmx, err = os.OpenFile(fmt.Sprintf("/proc/%d/root/dev/pts/ptmx", r.init.PID()), unix.O_PATH, 0)
	if err == nil {
		r.desk, err = r.makeDesk()
	}
	if err != nil || r.dead() {
		r.init.Release()
		return fault.New(fault.Execution, op, r.spec.User, errors.Join(errors.New("its first process ended"), err))
	}
	return nil
}

// plan tells the first process what to make.
func (r *Room) plan(to io.Writer, o Options) error {
	err := json.NewEncoder(to).Encode(plan{
		User: r.spec.User, UID: r.spec.Uid, Home: r.spec.Home, Hostname: r.spec.Hostname, Memory: r.spec.Limits.MemoryBytes,
		Base: o.Base, Layer: r.layer, Files: r.files, Resolvers: o.Resolvers, Shim: o.Shim, Outlet: r.outlet.socket != nil,
	})
	if err != nil {
		return fmt.Errorf("tell its first process what to make: %w", err)
	}
	return nil
}

// await reads what the first process reports.
func (r *Room) await(from *os.File) error {
	_ = from.SetReadDeadline(time.Now().Add(makePatience))
	var said report
	err := json.NewDecoder(io.LimitReader(from, maxReport)).Decode(&said)
	if err != nil {
		return fmt.Errorf("wait for its first process: %w", err)
	}
	if said.Failure != "" {
		return errors.New(said.Failure)
	}
	r.shell = said.Shell
	r.lacks = append(r.lacks, said.Warnings...)
	return nil
}

//go:build linux

package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// first is the first process of a room. It has the room's namespaces, and waits to be told what
// to make in them.
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

// spare keeps a first process that waits for the room that is made next: to start one, a
// program of Go's, is a third of what a room takes.
type spare struct {
	mu        sync.Mutex
	ready     *first
	beginning bool
}

// take returns the first process that has waited, or a new one.
func (s *spare) take(o Options) (f *first, waited bool, err error) {
	s.mu.Lock()
	f, s.ready = s.ready, nil
	s.mu.Unlock()
	if f != nil && f.ended() {
		f.end()
		f = nil
	}
	if f == nil {
		f, err = begin(o)
		return f, false, err
	}
	return f, true, nil
}

// refill begins another first process, if there is none.
func (s *spare) refill(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready != nil || s.beginning {
		return
	}
	s.beginning = true
	go func() {
		f, err := begin(o)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.beginning = false
		if err == nil { // or the next room says what is wrong
			s.ready = f
		}
	}()
}

// makePatience is how long the first process of a room may need for its mounts.
// Nothing of an agent runs before, so only the disk or a share can make it slow.
const makePatience = 30 * time.Second

// errEnded is why a room is not made whose first process has ended: one that has waited may
// have done so just when it was taken, and another one makes the room.
var errEnded = errors.New("its first process ended")

// open has a first process make the room, and waits until it has.
func (r *Room) open(f *first, o Options, took *laps) error {
	const op = "make room"
	r.init, r.pidfd = f.child, f.held
	defer f.line.Close()
	connected, beside := make(chan error, 1), newLaps()
	go func() { connected <- r.network(r.spec, o, beside) }()
	err := errors.Join(r.plan(f.line, o), r.await(f.line)) // one that could not wait has said why
	took.lap("mounts")
	if failed := <-connected; err == nil {
		err = failed
	}
	took.lap(fmt.Sprintf("network, which took %v, after that", beside))
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
		return fault.New(fault.Execution, op, r.spec.User, errors.Join(errEnded, err))
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
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) {
		return errEnded
	}
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

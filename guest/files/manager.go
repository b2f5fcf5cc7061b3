//go:build linux

package files

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// startTime bounds how long a connection waits for a worker to start.
const startTime = 30 * time.Second

// Room is where a user's worker runs.
type Room interface {
	// HiddenPlace keeps the worker from being seen by the room's other programs.
	HiddenPlace() process.Place
	Environment(root bool) []string // of the login
	// Dead is closed when the room ends.
	Dead() <-chan struct{}
}

// Find returns the room of a user, remaking it if it has ended.
type Find func(ctx context.Context, user string) (Room, error)

// Manager runs a worker in each room in use and passes connections to it. It never reads from
// them.
type Manager struct {
	processes *process.Manager
	room      Find
	program   string // path of the guest program, which rooms cannot see

	mu      sync.Mutex
	workers map[string]*worker
}

// NewManager returns a Manager without workers.
func NewManager(processes *process.Manager, program string, room Find) *Manager {
	return &Manager{processes: processes, program: program, room: room, workers: map[string]*worker{}}
}

// worker is a running or starting worker process.
type worker struct {
	ready            chan struct{} // closed when the start succeeded or failed
	err              error         // after ready
	child            *process.Child
	socket           *net.UnixConn // sends connections
	forgotten, ended chan struct{} // closed to end the process, and when it is gone
}

// Hand passes a connection to the worker of a user's room. The caller may then close its copy.
func (m *Manager) Hand(ctx context.Context, user string, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var err error
	for range 2 { // the first worker may be one that was idle
		w := m.take(ctx, user)
		select {
		case <-w.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if w.err != nil {
			return w.err
		}
		if err = pass(w.socket, conn); err == nil {
			return nil
		}
		m.remove(user, w)
	}
	return fault.New(fault.Unavailable, "access files", user, err).
		Advise("Try again; the room may have ended or hit its limit of memory or processes.")
}

// take returns a user's worker, starting one if needed.
func (m *Manager) take(ctx context.Context, user string) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[user]
	if w == nil {
		w = &worker{ready: make(chan struct{}), forgotten: make(chan struct{}), ended: make(chan struct{})}
		m.workers[user] = w
		// Not bound to this connection, because others may wait for the worker.
		go m.run(context.WithoutCancel(ctx), user, w)
	}
	return w
}

// run starts a worker and cleans up when it, or its room, ends.
func (m *Manager) run(ctx context.Context, user string, w *worker) {
	defer close(w.ended)
	room, err := m.launch(ctx, user, w)
	w.err = err
	close(w.ready)
	if err != nil {
		m.remove(user, w)
		return
	}
	select {
	case <-w.child.Done():
	case <-w.forgotten:
	case <-room.Dead():
	}
	m.remove(user, w)
	_ = w.socket.Close()
	w.child.Release()
}

// remove makes the next connection start another worker.
func (m *Manager) remove(user string, w *worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workers[user] == w {
		delete(m.workers, user)
	}
}

// Forget ends the worker of a user's room before the room is removed, so that no connection
// reaches an old room.
func (m *Manager) Forget(user string) {
	m.mu.Lock()
	w := m.workers[user]
	delete(m.workers, user)
	m.mu.Unlock()
	if w == nil {
		return
	}
	close(w.forgotten)
	<-w.ended
}

// launch starts a worker in its room.
func (m *Manager) launch(ctx context.Context, user string, w *worker) (Room, error) {
	const op = "start worker for files"
	room, err := m.room(ctx, user)
	if err != nil {
		return room, err
	}
	program, err := os.OpenFile(m.program, unix.O_PATH, 0)
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer program.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer theirs.Close()
	w.child, err = m.processes.Start(process.Spec{
		Args: []string{"osaurus-guest", WorkerCommand}, Program: program, Dir: "/", Place: room.HiddenPlace(),
		Env: append(room.Environment(false), "GOMEMLIMIT=96MiB", "GOTRACEBACK=none"), Input: theirs,
	})
	if err != nil {
		_ = ours.Close()
		return room, err
	}
	w.socket = ours
	return room, nil
}

// pass sends a connection's descriptor over a socket.
func pass(socket *net.UnixConn, conn net.Conn) error {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no descriptor", conn)
	}
	return process.Control(c, func(fd int) error {
		_, _, err := socket.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil)
		return err
	})
}

// socketPair returns a socket and the child's end of it.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "worker")
	socket, err := socketOf(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return socket, theirs, nil
}

// socketOf converts a file to a socket and closes the file.
func socketOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

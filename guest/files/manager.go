//go:build linux

package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

const (
	// idleTime is how long a worker waits for more work: the next call comes
	// quickly or not at all, and it costs its agent some megabytes.
	idleTime = 2 * time.Minute
	// startTime bounds how long a connection waits for a worker that is being started, on
	// a busy guest.
	startTime = 30 * time.Second
)

// Room is where a worker works.
type Room struct {
	Place process.Place
	Env   []string
	// Dead is closed when the room has ended.
	Dead <-chan struct{}
	// Program is the guest program, by its path outside of the room, which does not
	// show it.
	Program string
}

// Options are what a manager is made of.
type Options struct {
	Processes *process.Manager
	// Find finds the room of a user, and makes it anew if it has ended.
	Find func(ctx context.Context, user string) (Room, error)
}

// Manager has a worker in each room whose files are asked for, and hands the connections
// over to it on which they are. It reads nothing that is on them.
type Manager struct {
	Options
	mu      sync.Mutex
	workers map[string]*worker
}

// NewManager returns a manager without workers.
func NewManager(o Options) *Manager { return &Manager{Options: o, workers: map[string]*worker{}} }

// worker is one that runs, or is being started.
type worker struct {
	ready  chan struct{} // closed when it was started, or was not
	err    error
	child  *process.Child
	socket *net.UnixConn // connections go to it, and a byte comes back for each that has ended
	conns  int           // that it has; the manager's mutex guards it
	idle   *time.Timer
	ended  chan struct{} // closed when nothing of it is left
}

// Hand hands a connection over to the worker of a user's room, where there can be one. The
// caller's end of it may then be closed.
func (m *Manager) Hand(ctx context.Context, user string, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	w, err := m.take(ctx, user)
	if err != nil {
		return err
	}
	if err := pass(w.socket, conn); err != nil {
		m.give(w)
		return fault.New(fault.Unavailable, "touch files", user, err).Advise(tryAgain)
	}
	return nil
}

// tryAgain is what to do about a worker that has ended.
const tryAgain = "The room may be at its limit of memory or processes, or was ended: try again."

// take has a worker for one more connection.
func (m *Manager) take(ctx context.Context, user string) (*worker, error) {
	const op = "touch files"
	m.mu.Lock()
	w := m.workers[user]
	if w == nil {
		w = &worker{ready: make(chan struct{}), ended: make(chan struct{})}
		m.workers[user] = w
		// Not bound to the connection: others may wait for it.
		go m.start(context.WithoutCancel(ctx), user, w)
	}
	// The host has half as many; what it has closed may not be told of yet.
	if w.conns >= 2*protocol.MaxFileConns {
		m.mu.Unlock()
		return nil, fault.Newf(fault.Rejected, op, user, "too many calls about files of this agent are under way").Advise("Wait for some of them.")
	}
	w.conns++
	if w.idle != nil {
		w.idle.Stop()
	}
	m.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		m.give(w)
		return nil, ctx.Err()
	}
	if w.err != nil {
		m.give(w)
		return nil, w.err
	}
	return w, nil
}

// give has one connection less. A worker that says so too often has none.
func (m *Manager) give(w *worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.conns = max(0, w.conns-1)
	if w.conns == 0 && w.idle != nil {
		w.idle.Reset(idleTime)
	}
}

// start starts a worker, and sees to its end.
func (m *Manager) start(ctx context.Context, user string, w *worker) {
	defer close(w.ended)
	room, err := m.launch(ctx, user, w)
	m.mu.Lock()
	w.err = err
	if err == nil {
		w.idle = time.AfterFunc(idleTime, func() { m.retire(user, w) })
		if w.conns > 0 {
			w.idle.Stop()
		}
	} else if m.workers[user] == w {
		delete(m.workers, user)
	}
	m.mu.Unlock()
	close(w.ready)
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.count(w)
	}()
	select {
	case <-done: // it was retired, or has ended
	case <-room.Dead:
	}
	m.mu.Lock()
	if m.workers[user] == w {
		delete(m.workers, user)
	}
	m.mu.Unlock()
	w.idle.Stop()
	_ = w.socket.Close()
	<-done
	w.child.Release()
}

// count hears from a worker which of its connections have ended, until the socket to it
// has.
func (m *Manager) count(w *worker) {
	for word := make([]byte, 1); ; {
		if _, err := w.socket.Read(word); err != nil {
			return
		}
		m.give(w)
	}
}

// retire ends a worker that nobody has used for a while.
func (m *Manager) retire(user string, w *worker) {
	m.mu.Lock()
	unused := w.conns == 0
	if unused && m.workers[user] == w {
		delete(m.workers, user)
	}
	m.mu.Unlock()
	if unused {
		_ = w.socket.Close()
	}
}

// Forget ends the worker of a user's room, before the room goes: its connections must
// not answer of a room that is no more.
func (m *Manager) Forget(user string) {
	m.mu.Lock()
	w := m.workers[user]
	delete(m.workers, user)
	m.mu.Unlock()
	if w == nil {
		return
	}
	<-w.ready
	if w.err == nil {
		_ = w.socket.Close()
		<-w.ended
	}
}

// launch starts a worker in its room.
func (m *Manager) launch(ctx context.Context, user string, w *worker) (Room, error) {
	const op = "start worker for files"
	room, err := m.Find(ctx, user)
	if err != nil {
		return room, err
	}
	program, err := os.OpenFile(room.Program, unix.O_PATH, 0)
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer program.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = ours.Close()
		return room, fault.New(fault.Unavailable, op, user, err)
	}
	defer null.Close()
	w.child, err = m.Processes.Start(process.Spec{
		Args: []string{"osaurus-guest", WorkerCommand}, Program: program, Dir: "/", Place: room.Place,
		Env:   append(room.Env, "GOMEMLIMIT=96MiB", "GOTRACEBACK=none"),
		Files: [3]uintptr{theirs.Fd(), null.Fd(), null.Fd()},
	})
	if err != nil {
		_ = ours.Close()
		return room, err
	}
	w.socket = ours
	return room, nil
}

// pass passes a connection on to who is at the other end of a socket.
func pass(socket *net.UnixConn, conn net.Conn) error {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no descriptor", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		_, _, failed = socket.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, failed)
}

// socketPair is a socket to a child, and the child's end of it.
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

// socketOf is an end of a socket, whose descriptor it closes.
func socketOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

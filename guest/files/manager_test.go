//go:build linux

package files

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"osaurus-sandbox/guest/process"
)

// TestMain runs this test program as a worker when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerCommand {
		Work()
	}
	os.Exit(m.Run())
}

// patience is more than anything takes here on a busy host.
const patience = 30 * time.Second

// newManager returns a manager whose workers run on this computer.
func newManager(t *testing.T) *Manager {
	t.Helper()
	processes, err := process.NewManager(process.Options{})
	must(t, err)
	m := NewManager(processes, "/proc/self/exe", func(context.Context, string) (Room, error) { return here{}, nil })
	t.Cleanup(func() {
		m.Forget("alice")
		processes.Close()
	})
	return m
}

// here is this computer as a room.
type here struct{}

func (here) HiddenPlace() process.Place { return nil }
func (here) Environment(bool) []string  { return os.Environ() }
func (here) Dead() <-chan struct{}      { return nil }

// hand passes a new connection to the worker and returns its other end.
func hand(m *Manager) (net.Conn, error) {
	here, there, err := connected()
	if err != nil {
		return nil, err
	}
	defer there.Close() // the worker has its own
	if err := m.Hand(context.Background(), "alice", there); err != nil {
		_ = here.Close()
		return nil, err
	}
	return here, nil
}

// TestForget checks that a worker that is ended takes its connections with it.
func TestForget(t *testing.T) {
	m := newManager(t)
	conn, err := hand(m)
	must(t, err)
	defer conn.Close()
	m.Forget("alice")
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || os.IsTimeout(err) {
		t.Fatalf("a connection outlives its worker: %d bytes, %v", n, err)
	}
	conn, err = hand(m) // to another worker
	must(t, err)
	must(t, conn.Close())
}

// TestRetire checks that a worker ends when it has been idle, but serves connections that are on
// their way.
func TestRetire(t *testing.T) {
	ours, theirs, err := socketPair()
	must(t, err)
	socket, err := socketOf(theirs)
	must(t, err)
	on, there, err := connected()
	must(t, err)
	must(t, pass(ours, there))
	must(t, there.Close())
	must(t, socket.CloseRead()) // as if it had been idle
	served := make(chan error, 1)
	go func() { served <- serve(socket, time.Hour) }()
	_, late, err := connected()
	must(t, err)
	if err := pass(ours, late); err == nil {
		t.Error("it takes another connection")
	}
	must(t, late.Close())
	select {
	case err := <-served:
		t.Errorf("it ended with an open connection: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, on.Close())
	select {
	case err := <-served:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("it never ended")
	}
	must(t, ours.Close())
}

// TestIdle checks that a connection reaches a new worker when the last one was idle.
func TestIdle(t *testing.T) {
	m := newManager(t)
	conn, err := hand(m)
	must(t, err)
	must(t, conn.Close())
	m.mu.Lock()
	first := m.workers["alice"]
	m.mu.Unlock()
	must(t, first.socket.CloseWrite()) // for passing, as good as the worker's own
	conn, err = hand(m)
	must(t, err)
	must(t, conn.Close())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workers["alice"] == first {
		t.Error("it is the same worker")
	}
}

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

// TestRetire checks that a worker is ended when it has been idle, but not while a connection is open
// or on its way.
func TestRetire(t *testing.T) {
	ours, theirs, err := socketPair()
	must(t, err)
	socket, err := socketOf(theirs)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(socket, time.Millisecond) }()
	m := NewManager(nil, "", nil)
	w := &worker{socket: ours, handed: 2}
	m.workers["alice"] = w
	conns := make([]net.Conn, 2)
	for i := range conns {
		here, there, err := connected()
		must(t, err)
		conns[i] = here
		must(t, pass(ours, there))
		must(t, there.Close())
		if i == 0 {
			must(t, conns[i].Close()) // the worker reports one connection while another is on its way
			time.Sleep(10 * time.Millisecond)
		}
	}
	retired := make(chan struct{})
	go func() { m.retire("alice", w); close(retired) }()
	select {
	case <-retired:
		t.Error("retired with an open connection")
	case <-time.After(50 * time.Millisecond):
	}
	must(t, conns[1].Close())
	select {
	case <-retired:
	case <-time.After(patience):
		t.Fatal("never retired")
	}
	if len(m.workers) != 0 {
		t.Error("the next connection would go to the retired worker")
	}
	must(t, ours.Close())
	must(t, <-served)
}

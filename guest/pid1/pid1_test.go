//go:build linux

package pid1

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mdlayher/vsock"
)

// queue is a listener with waiting connections.
type queue struct{ conns []net.Conn }

func (q *queue) Accept() (net.Conn, error) {
	if len(q.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := q.conns[0]
	q.conns = q.conns[1:]
	return c, nil
}
func (q *queue) Close() error   { return nil }
func (q *queue) Addr() net.Addr { return &vsock.Addr{} }

type from struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
func (f *from) Close() error         { f.closed = true; return nil }

// TestHostOnly checks that only the host is accepted: not the guest, its loopback or the hypervisor.
func TestHostOnly(t *testing.T) {
	strangers := []*from{
		{addr: &vsock.Addr{ContextID: vsock.Local}}, {addr: &vsock.Addr{ContextID: 3}},
		{addr: &vsock.Addr{ContextID: vsock.Hypervisor}}, {addr: &net.UnixAddr{Name: "x"}},
	}
	host := &from{addr: &vsock.Addr{ContextID: vsock.Host, Port: 9}}
	q := &queue{}
	for _, s := range strangers {
		q.conns = append(q.conns, s)
	}
	q.conns = append(q.conns, host)
	if c, err := (hostOnly{q}).Accept(); err != nil || c != net.Conn(host) || host.closed {
		t.Errorf("%v %v", c, err)
	}
	for _, s := range strangers {
		if !s.closed {
			t.Errorf("the connection of %v is open", s.addr)
		}
	}
	if _, err := (hostOnly{q}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestOSRelease(t *testing.T) {
	got := osRelease("# comment\nID=alpine\nPRETTY_NAME=\"Alpine Linux\"\nX='y'\n\nbroken\n=no\nLONE=\"\n")
	want := map[string]string{"ID": "alpine", "PRETTY_NAME": "Alpine Linux", "X": "y", "LONE": `"`}
	if len(got) != len(want) {
		t.Errorf("%q", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

func TestMemory(t *testing.T) {
	total, available := memory("MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:\t512 kB\nodd\n")
	if total != 1<<20 || available != 512<<10 {
		t.Errorf("%d %d", total, available)
	}
}

// stuck is a console that is not read.
type stuck struct{ written, over chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	close(s.written)
	<-s.over
	return len(b), nil
}

// TestInfoBesideAStuckConsole checks that Info does not wait for the console.
func TestInfoBesideAStuckConsole(t *testing.T) {
	console := stuck{make(chan struct{}), make(chan struct{})}
	defer close(console.over)
	m := newMachine()
	m.console = console
	go m.log("a line")
	<-console.written
	answered := make(chan struct{})
	go func() { m.Info(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(30 * time.Second):
		t.Error("it waits")
	}
}

//go:build linux

package files

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// TestMain makes this test program a worker, where asked to.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerCommand {
		Work()
	}
	os.Exit(m.Run())
}

// patience is more than anything takes here on a busy host.
const patience = 30 * time.Second

// newKeeper is a manager whose rooms are all this host.
func newKeeper(t *testing.T) *Manager {
	t.Helper()
	processes, err := process.NewManager(process.Options{})
	must(t, err)
	k := NewManager(Options{Processes: processes, Find: func(context.Context, string) (Room, error) {
		return Room{Env: os.Environ(), Program: "/proc/self/exe", Dead: make(chan struct{})}, nil
	}})
	t.Cleanup(func() {
		k.Forget("alice")
		processes.Close()
	})
	return k
}

// hand hands a new connection over, and returns the host's end of it.
func hand(m *Manager) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	here, err := socketOf(os.NewFile(uintptr(fds[0]), "here"))
	if err != nil {
		return nil, err
	}
	there, err := socketOf(os.NewFile(uintptr(fds[1]), "there"))
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

// conns is how many connections alice's worker has, as the manager has been told.
func (m *Manager) conns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers["alice"].conns
}

// As many calls as a room may have at once, and right after them as many again: none is refused,
// although most connections are new ones and the manager may not have heard yet that others have ended.
func TestBursts(t *testing.T) {
	k, dir := newKeeper(t), t.TempDir()
	for range 2 {
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return hand(k) },
			MaxConnsPerHost: protocol.MaxFileConns, MaxIdleConnsPerHost: protocol.MaxFileConns,
		}
		c := guestpbconnect.NewFilesClient(&http.Client{Transport: transport}, "http://files", protocol.ClientOptions())
		var calls sync.WaitGroup
		for range protocol.MaxFileConns {
			calls.Go(func() {
				if _, err := c.Stat(t.Context(), &guestpb.StatFileRequest{File: at(dir, ".")}); err != nil {
					t.Error(protocol.Decode("stat", "", err))
				}
			})
		}
		calls.Wait()
		transport.CloseIdleConnections()
	}
	timetest.Eventually(t, "connections that have ended still count", func() bool { return k.conns() == 0 })
}

// Beyond what the host has at most a connection is refused, until another has ended; and a worker
// that is ended takes its connections with it.
func TestConnectionsAreBounded(t *testing.T) {
	k := newKeeper(t)
	var open []net.Conn
	for range 2 * protocol.MaxFileConns {
		conn, err := hand(k)
		must(t, err)
		defer conn.Close()
		open = append(open, conn)
	}
	if _, err := hand(k); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("one too many: %v", err)
	}
	must(t, open[0].Close())
	timetest.Eventually(t, "a connection that has ended still counts", func() bool { return k.conns() < 2*protocol.MaxFileConns })
	conn, err := hand(k)
	must(t, err)
	defer conn.Close()
	k.Forget("alice")
	for _, conn := range append(open[1:], conn) {
		must(t, conn.SetReadDeadline(time.Now().Add(patience)))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || os.IsTimeout(err) {
			t.Fatalf("a connection outlives its worker: %d bytes, %v", n, err)
		}
	}
	conn, err = hand(k) // to another worker
	must(t, err)
	must(t, conn.Close())
}

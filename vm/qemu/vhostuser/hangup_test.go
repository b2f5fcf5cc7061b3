//go:build linux

package vhostuser

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
)

// A device that was told to stop while one of its requests hangs does not wait
// for that as long as the front end would have, once that has hung up.
func TestHungUpOnAStop(t *testing.T) {
	const before = 2 * time.Second
	for name, hangs := range map[string]func(*Queue){
		"on the queue's own goroutine": func(*Queue) {},
		"on another":                   func(q *Queue) { close(q.loopDone); q.inflight = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			conn := anyConn(t)
			kick, kicks, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer kicks.Close()
			timetest.Synthetic(t, func(t *testing.T) {
				q := newQueue(0, new(health), slog.New(slog.DiscardHandler), func(*Queue) {})
				q.running, q.kick, q.loopDone = true, kick, make(chan struct{})
				hangs(q)
				s := &server{conn: conn, queues: []*Queue{q}}
				began, stopped := time.Now(), make(chan struct{})
				go func() { defer close(stopped); q.stop() }()
				time.Sleep(before)
				s.hangUp()
				<-stopped
				if took := time.Since(began); took != before+drainTimeoutGone || q.inflight != 0 {
					t.Errorf("it waited for %v, and then for %d requests", took, q.inflight)
				}
				q.close()
			})
		})
	}
}

// anyConn is a connection to nobody.
func anyConn(t *testing.T) *net.UnixConn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "")
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close(), unix.Close(fds[1])); err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

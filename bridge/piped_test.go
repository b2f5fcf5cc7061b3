package bridge_test

import (
	"net"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/internal/timetest"
)

// pipes is a listener in memory, for tests in virtual time.
type pipes struct {
	come chan net.Conn
	gone chan struct{}
	once sync.Once
}

func newPipes() *pipes { return &pipes{come: make(chan net.Conn), gone: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.gone) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// piped returns a world whose connections are pipes.
func piped(t testing.TB, change ...func(*bridge.Options)) *world {
	w := plan(t, change...)
	l := newPipes()
	var listening sync.WaitGroup
	listening.Go(func() {
		if err := w.server.Serve(l); err != nil {
			t.Error(err)
		}
	})
	w.dial = func(uid uint32) net.Conn {
		here, there := net.Pipe()
		l.come <- bridgetest.Conn(there, uid)
		return here
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
		listening.Wait()
		timetest.Wait() // fails if goroutines are left
	})
	return w
}

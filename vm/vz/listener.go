//go:build darwin || vzstandin

package vz

import (
	"net"
	"sync"

	"github.com/Code-Hex/vz/v3"
	"github.com/mdlayher/vsock"
)

// backlog is how many connections a listener holds until Accept; what is
// beyond is closed. It takes the burst of a guest that starts its programs all
// at once, and bounds the descriptors that a hostile one can take.
const backlog = 128

// listener gives vz's listener the manners of a net.Listener. In v3.7.1 its
// Accept does not return once it is closed, so a goroutine waits there in the
// callers' stead, and what still arrives is closed. That goroutine stays until
// the process ends, one for each listener that there ever was.
type listener struct {
	board *switchboard
	inner *vz.VirtioSocketListener
	port  uint32
	done  chan struct{}

	mu    sync.Mutex
	over  bool
	queue chan net.Conn
}

func newListener(s *switchboard, inner *vz.VirtioSocketListener, port uint32) *listener {
	l := &listener{board: s, inner: inner, port: port, done: make(chan struct{}), queue: make(chan net.Conn, backlog)}
	go l.receive()
	return l
}

// receive takes the guest's connections from the framework.
func (l *listener) receive() {
	for {
		c, err := l.inner.AcceptVirtioSocketConnection()
		if err != nil || c == nil {
			// A connection that came to nothing; a later vz may also mean the end.
			select {
			case <-l.done:
				return
			default:
				continue
			}
		}
		if ours, err := l.board.adopt(c, c.DestinationPort(), c.SourcePort()); err == nil {
			l.offer(ours)
		}
	}
}

// offer queues a connection, if there is room for it.
func (l *listener) offer(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || len(l.queue) == cap(l.queue) {
		c.Close()
		return
	}
	l.queue <- c // has room: only this function sends, under l.mu
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done: // wins over what is queued
	default:
		select {
		case c := <-l.queue:
			return c, nil
		case <-l.done:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "vsock", Addr: l.Addr(), Err: net.ErrClosed}
}

// Addr implements net.Listener. It is a *vsock.Addr of mdlayher/vsock.
func (l *listener) Addr() net.Addr { return &vsock.Addr{ContextID: vsock.Host, Port: l.port} }

// Close implements net.Listener. Connections not accepted yet are closed.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil
	}
	l.over = true
	close(l.done)
	l.mu.Unlock()
	for len(l.queue) > 0 { // an Accept may take one too
		select {
		case c := <-l.queue:
			c.Close()
		default:
		}
	}
	err := l.inner.Close()
	// Only now is the port free: closing the framework's listener removes
	// whichever has it.
	l.board.mu.Lock()
	delete(l.board.listeners, l.port)
	l.board.mu.Unlock()
	return err
}

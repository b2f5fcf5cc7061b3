//go:build darwin || vzstandin

package vz

import (
	"net"
	"sync"

	"github.com/Code-Hex/vz/v3"
	"github.com/mdlayher/vsock"
)

// backlog is how many connections a listener queues for Accept. It closes further ones,
// which bounds the descriptors that a hostile guest can use.
const backlog = 128

// listener adapts vz's listener to net.Listener. In v3.7.1, vz's Accept does not return
// after Close, so a goroutine calls it, which leaks until the process ends.
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
			// A failed connection. Later versions of vz may return an error after Close.
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
	case <-l.done: // even if connections are queued
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
	for len(l.queue) > 0 { // Accept may run at the same time
		select {
		case c := <-l.queue:
			c.Close()
		default:
		}
	}
	err := l.inner.Close()
	// Free the port last: closing the framework's listener removes any listener of
	// the port.
	l.board.mu.Lock()
	delete(l.board.listeners, l.port)
	l.board.mu.Unlock()
	return err
}

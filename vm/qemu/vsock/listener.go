//go:build linux

package vsock

import (
	"context"
	"math"
	"net"
	"os"
	"sync"
	"syscall"

	afvsock "github.com/mdlayher/vsock"
)

// firstPort is the first local port of dialled connections, far above those of listeners.
const firstPort = 1 << 30

// Dial connects to a listener in the guest. It waits until the guest has a vsock driver. It fails
// with ECONNREFUSED if nothing listens on the port, and net.ErrClosed if the device is closed.
func (d *Device) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	remote := &afvsock.Addr{ContextID: d.cid, Port: port}
	c, err := d.newDialled(port)
	if err == nil {
		d.schedule(c)
		select {
		case <-c.settled:
			err = c.refused()
		case <-ctx.Done():
			err = ctx.Err()
			c.abort()
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err}
	}
	return c, nil
}

func (d *Device) newDialled(port uint32) (*Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for { // terminates: there are far more ports than connections
		if d.nextPort++; d.nextPort == math.MaxUint32 {
			d.nextPort = firstPort
		}
		if _, used := d.conns[key{d.nextPort, port}]; !used {
			break
		}
	}
	c := newConn(d, fromHost, key{d.nextPort, port})
	c.state, c.need = stateDialing, needRequest
	return c, d.add(c)
}

// accept handles a connection request from the guest.
func (d *Device) accept(h *header) {
	c := newConn(d, fromGuest, key{h.dstPort, h.srcPort})
	c.peerAlloc, c.peerFwd = h.bufAlloc, h.fwdCnt
	c.state, c.need = stateOpen, needResponse
	if !d.offer(c) {
		d.refuse(h)
		return
	}
	d.enqueue(c, false)
}

// offer queues a connection for its listener. It returns false if there is none or its backlog is
// full.
func (d *Device) offer(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.listeners[c.key.host]
	if l == nil || len(l.queue) == cap(l.queue) || d.add(c) != nil {
		return false
	}
	l.queue <- c // has room: only this function sends, under d.mu
	return true
}

// Listen returns a listener for the guest's connections to a port of the host.
func (d *Device) Listen(port uint32) (net.Listener, error) {
	l := &Listener{d: d, port: port, queue: make(chan *Conn, backlog), closed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	switch {
	case d.closed:
		err = net.ErrClosed
	case d.listeners[port] != nil:
		err = os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: l.Addr(), Err: err}
	}
	d.listeners[port] = l
	return l, nil
}

// Listener is a net.Listener for connections from the guest.
type Listener struct {
	d      *Device
	port   uint32
	queue  chan *Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Listener)(nil)

func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	default:
		select {
		case c := <-l.queue:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: network, Addr: l.Addr(), Err: net.ErrClosed}
}

func (l *Listener) Addr() net.Addr { return &afvsock.Addr{ContextID: hostCID, Port: l.port} }

// Close implements net.Listener. Connections not accepted yet are reset.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.d.mu.Lock()
		delete(l.d.listeners, l.port)
		l.d.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				c.abort()
			default:
				return
			}
		}
	})
	return nil
}

//go:build linux

package vsock

import (
	"context"
	"math"
	"net"
	"os"
	"syscall"

	afvsock "github.com/mdlayher/vsock"

	"osaurus-sandbox/vm"
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
	if err := d.full(fromHost); err != nil {
		return nil, err
	}
	d.add(c)
	return c, nil
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

// offer registers a connection and queues it for its listener. It returns false if there is none,
// its backlog is full or there are too many connections.
func (d *Device) offer(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.listeners[c.key.host]
	if l == nil || d.full(fromGuest) != nil || !l.Offer(c) {
		return false
	}
	d.add(c)
	return true
}

// Listen returns a listener for the guest's connections to a port of the host.
func (d *Device) Listen(port uint32) (net.Listener, error) {
	addr := &afvsock.Addr{ContextID: hostCID, Port: port}
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
		return nil, &net.OpError{Op: "listen", Net: network, Addr: addr, Err: err}
	}
	l := vm.NewListener(addr, backlog, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.listeners, port)
		return nil
	})
	d.listeners[port] = l
	return l, nil
}

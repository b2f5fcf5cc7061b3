//go:build linux

package vsock

import (
	"container/list"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	afvsock "github.com/mdlayher/vsock"
)

const (
	network = "vsock"

	// closeTimeout is how long a closed connection waits for its peer to
	// confirm the end, before it is reset. Linux waits 8 s.
	closeTimeout = 10 * time.Second
)

type connState uint8

const (
	stateDialing connState = iota
	stateOpen
	stateDead // ended for the guest; received data can still be read
)

// Conn is one stream connection.
type Conn struct {
	d       *Device
	origin  origin
	key     key
	settled chan struct{} // closed when a dial is answered

	rmu, wmu sync.Mutex // one Read, one Write at a time

	ready *list.Element // in Device.ready; Device.mu guards it

	mu           sync.Mutex
	rcond, wcond sync.Cond
	state        connState
	err          error // error that ended it; nil after an orderly end
	need         need
	closed       bool // Close was called
	forgotten    bool // removed from the device's table
	released     bool // its slot in the device was freed
	closeTimer   *time.Timer

	// Receiving.
	in              fifo
	rbuf            []byte // buffer of a waiting Read, filled in place
	rgot            int    // bytes in rbuf
	window          int    // bytes that the guest may send ahead
	fwdCnt, fwdTold uint32 // bytes read; value last sent to the guest
	peerShut        uint32 // shutdown flags received
	readDL          deadline

	// Sending.
	wbuf               []byte // rest of a waiting Write's data
	txCnt              uint32
	peerAlloc, peerFwd uint32
	creditAsked        bool
	shutWant, shutSent uint32
	writeDL            deadline
}

var _ net.Conn = (*Conn)(nil)

func newConn(d *Device, o origin, k key) *Conn {
	c := &Conn{d: d, origin: o, key: k, settled: make(chan struct{}), window: firstWindow}
	c.rcond.L, c.wcond.L = &c.mu, &c.mu
	return c
}

// unlock unlocks c.mu, removes the connection from the device if it has died or is released, and
// reports whether there is something to send.
func (c *Conn) unlock() (send bool) {
	dead := c.state == stateDead
	forget, release := dead && !c.forgotten, dead && c.closed && c.need == 0 && !c.released
	c.forgotten = c.forgotten || forget
	c.released = c.released || release
	if release {
		c.d.grown.Add(int64(firstWindow - c.window))
	}
	send = c.pending()
	c.mu.Unlock()
	if forget {
		c.d.forget(c)
	}
	if release {
		c.d.release(c)
	}
	return send
}

func (c *Conn) Read(p []byte) (int, error) {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	c.mu.Lock()
	n, err := c.read(p)
	c.rbuf, c.rgot = nil, 0
	if c.unlock() {
		c.d.schedule(c)
	}
	return n, err
}

func (c *Conn) read(p []byte) (int, error) {
	for {
		switch {
		case c.rgot > 0:
			return c.rgot, nil
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case c.readDL.expired():
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.in.n > 0:
			n := c.in.take(p)
			c.consumed(n)
			return n, nil
		case c.err != nil:
			return 0, c.opError("read", c.err)
		case c.peerShut&shutSend != 0 || c.state == stateDead:
			return 0, io.EOF
		}
		c.rbuf = p
		c.rcond.Wait()
	}
}

// Write implements net.Conn. It returns when all data is in buffers of the guest, or with an error.
func (c *Conn) Write(p []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.mu.Lock()
	err := c.writeErr()
	if err == nil {
		c.wbuf = p
		if c.unlock() {
			c.d.schedule(c)
		}
		c.mu.Lock()
		for len(c.wbuf) > 0 {
			if err = c.writeErr(); err != nil {
				break
			}
			c.wcond.Wait()
		}
		p = p[:len(p)-len(c.wbuf)]
		c.wbuf = nil
	} else {
		p = nil
	}
	c.unlock()
	if err != nil {
		return len(p), c.opError("write", err)
	}
	return len(p), nil
}

// writeErr returns the error for writes to a connection that can no longer be written to.
func (c *Conn) writeErr() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.writeDL.expired():
		return os.ErrDeadlineExceeded
	case c.err != nil:
		return c.err
	case c.shutWant&shutSend != 0 || c.peerShut&shutRecv != 0 || c.state == stateDead:
		return syscall.EPIPE
	}
	return nil
}

// CloseWrite shuts down the sending side.
func (c *Conn) CloseWrite() error { return c.shutdown(shutSend) }

// Close implements net.Conn. Written data is still delivered.
func (c *Conn) Close() error { return c.shutdown(shutBoth) }

// shutdown tells the guest that this side no longer sends or receives, according to flags. With
// shutRecv it also closes the connection.
func (c *Conn) shutdown(flags uint32) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.shutWant |= flags
	if flags&shutRecv != 0 {
		c.closed = true
		c.fwdCnt += uint32(c.in.n)
		c.in = fifo{}
		c.readDL.stop()
		c.writeDL.stop()
		if c.state != stateDead {
			c.closeTimer = time.AfterFunc(closeTimeout, c.abort)
		}
	}
	c.rcond.Broadcast()
	c.wcond.Broadcast()
	if c.unlock() {
		c.d.schedule(c)
	}
	return nil
}

// die marks the connection as dead. The caller holds c.mu.
func (c *Conn) die(err error) {
	if c.state == stateDialing {
		close(c.settled)
	}
	c.state, c.err = stateDead, err
	if c.closeTimer != nil {
		c.closeTimer.Stop()
	}
	c.rcond.Broadcast()
	c.wcond.Broadcast()
}

// failLocked ends the connection without telling the guest. The caller holds c.mu.
func (c *Conn) failLocked(err error) {
	c.need = 0
	if c.state != stateDead {
		// The caller of a failed dial never gets the connection to close it.
		c.closed = c.closed || c.state == stateDialing
		c.die(err)
	}
}

// abort ends the connection with a reset.
func (c *Conn) abort() {
	c.mu.Lock()
	c.closed = true
	if c.state != stateDead {
		if c.need&needRequest != 0 {
			c.need = 0 // the guest does not know it
		} else {
			c.need = needReset
		}
		c.die(net.ErrClosed)
	}
	c.in = fifo{}
	if c.unlock() {
		c.d.schedule(c)
	}
}

// refused returns the error of a failed dial.
func (c *Conn) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// giveWay ends a connection that the host has closed, if the guest already reuses its ports. It
// reports whether it did.
func (c *Conn) giveWay() bool {
	c.mu.Lock()
	defer c.unlock()
	if c.closed {
		c.failLocked(nil)
	}
	return c.closed
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c *Conn) LocalAddr() net.Addr { return &afvsock.Addr{ContextID: hostCID, Port: c.key.host} }

// RemoteAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c *Conn) RemoteAddr() net.Addr { return &afvsock.Addr{ContextID: c.d.cid, Port: c.key.guest} }

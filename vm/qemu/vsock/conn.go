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
	stateDead // gone from the wire; what was received can still be read
)

// Conn is one stream connection.
type Conn struct {
	d       *Device
	origin  origin
	key     key
	settled chan struct{} // closed when a dial has its answer

	rmu, wmu sync.Mutex // one Read, one Write at a time

	ready *list.Element // in Device.ready; Device.mu guards it

	mu           sync.Mutex
	rcond, wcond sync.Cond
	state        connState
	err          error // why it is dead; nil for an orderly end
	need         need
	closed       bool // Close was called
	forgotten    bool // the device's table was told that it is dead
	released     bool // the device was told that it is closed, dead and has nothing to send
	closeTimer   *time.Timer

	// Receiving.
	in              fifo
	rbuf            []byte // a waiting Read's; it is filled in place
	rgot            int    // what was put there
	window          int    // what the guest may send before it is read
	fwdCnt, fwdTold uint32 // bytes read; of which the guest knows
	peerShut        uint32 // shutdown flags received
	readDL          deadline

	// Sending.
	wbuf               []byte // what is left of a waiting Write's
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

// unlock gives c.mu back, tells the device if the connection has died or needs
// its place no longer, and reports whether there is something to send.
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
			n := c.in.take(c.d.chunks, p)
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

// Write implements net.Conn. It returns when the guest has all data, in the
// buffers of its socket or of its driver, or when an error ends it early.
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

// writeErr is why nothing can be written any more.
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

// CloseWrite ends the stream to the guest.
func (c *Conn) CloseWrite() error { return c.shutdown(shutSend) }

// Close implements net.Conn. What was written is still delivered.
func (c *Conn) Close() error { return c.shutdown(shutBoth) }

// shutdown announces that this side will not do what flags say any more.
// Without receiving it is closed.
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
		c.in.clear(c.d.chunks)
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

// die marks the connection as gone from the wire. The caller holds c.mu.
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

// fail ends the connection without telling the guest.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	c.need = 0
	if c.state != stateDead {
		// A dial that failed was never handed to anyone who could close it.
		c.closed = c.closed || c.state == stateDialing
		c.die(err)
	}
	c.unlock()
}

// abort ends the connection for good, with a reset.
func (c *Conn) abort() {
	c.mu.Lock()
	c.closed = true
	if c.state != stateDead {
		if c.need&needRequest != 0 {
			c.need = 0 // the guest never heard of it
		} else {
			c.need = needReset
		}
		c.die(net.ErrClosed)
	}
	c.in.clear(c.d.chunks)
	if c.unlock() {
		c.d.schedule(c)
	}
}

// refused is why a dial failed.
func (c *Conn) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// unheard reports whether the guest does not know of this dial yet.
func (c *Conn) unheard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.need&needRequest != 0
}

// established reports whether this is no dial that waits for an answer.
func (c *Conn) established() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state != stateDialing
}

// giveWay ends a connection that the host has closed, because the guest
// already uses its ports for a new one. It reports whether it did.
func (c *Conn) giveWay() bool {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		c.fail(nil)
	}
	return closed
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c *Conn) LocalAddr() net.Addr { return &afvsock.Addr{ContextID: hostCID, Port: c.key.host} }

// RemoteAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c *Conn) RemoteAddr() net.Addr { return &afvsock.Addr{ContextID: c.d.cid, Port: c.key.guest} }

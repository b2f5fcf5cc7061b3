package vsock

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/vm/qemu/vhostuser"
)

// closeTimeout is how long a closed connection waits for its peer to make
// progress: to take the data left, and to confirm the end.
const closeTimeout = 10 * time.Second

type connState uint8

const (
	stateDialing connState = iota
	stateOpen
	stateDead // gone from the wire; buffered data can still be read
)

// Control packets a connection has to send. Each is a flag, so a guest cannot
// make a queue of them grow.
const (
	needRequest = 1 << iota
	needResponse
	needReset
	needCredit
	needCreditRequest
)

// Conn is one stream connection. It implements net.Conn and has CloseRead and
// CloseWrite.
type Conn struct {
	d       *Device
	key     key
	queued  bool // guarded by Device.mu
	settled chan struct{}
	wmu     sync.Mutex // one Write at a time

	mu           sync.Mutex
	rcond, wcond sync.Cond
	state        connState
	err          error // why it is dead; nil for an orderly end
	need         uint8

	// Receiving. rxFree counts as the guest sees it: bufSize less what it
	// sent since the last credit it was told of.
	in               ring
	fwdCnt, fwdTold  uint32
	peerShut         uint32 // shutdown flags received
	recvClosed       bool   // CloseRead or Close was called
	readDL, writeDL  time.Time
	rTimer, wTimer   *time.Timer
	closed           bool // Close was called
	closeTimer       *time.Timer
	progress, lastOK uint32 // to tell whether the peer still takes data

	// Sending.
	out                ring
	txCnt              uint32
	peerAlloc, peerFwd uint32
	creditAsked        bool
	shutWant, shutSent uint32
}

func newConn(d *Device, k key) *Conn {
	c := &Conn{d: d, key: k, settled: make(chan struct{})}
	c.rcond.L, c.wcond.L = &c.mu, &c.mu
	return c
}

func (c *Conn) settle() {
	select {
	case <-c.settled:
	default:
		close(c.settled)
	}
}

// credit is how much the guest can take. The caller holds c.mu.
func (c *Conn) credit() int {
	inFlight := c.txCnt - c.peerFwd
	if inFlight >= c.peerAlloc {
		return 0
	}
	return int(c.peerAlloc - inFlight)
}

// pending reports whether there is a packet to send. The caller holds c.mu.
func (c *Conn) pending() bool {
	if c.need != 0 {
		return true
	}
	if c.state != stateOpen {
		return false
	}
	if c.out.n > 0 {
		return c.credit() > 0
	}
	return c.shutWant&^c.shutSent != 0
}

// send sends one packet. It reports whether there are more, and whether the
// guest had no buffer for this one.
func (c *Conn) send(q *vhostuser.Queue) (more, starved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending() {
		return false, false
	}
	chain, ok := q.Pop()
	if !ok {
		return false, true
	}
	h := header{srcCID: HostCID, dstCID: uint64(c.d.cid), srcPort: c.key.host, dstPort: c.key.guest,
		typ: typeStream, bufAlloc: bufSize, fwdCnt: c.fwdCnt}
	var p1, p2 []byte
	take := func(flag uint8, op uint16) bool {
		if c.need&flag == 0 {
			return false
		}
		c.need &^= flag
		h.op = op
		return true
	}
	switch {
	case take(needReset, opRST):
		c.need = 0
	case take(needRequest, opRequest):
	case take(needResponse, opResponse):
	case c.state == stateOpen && c.out.n > 0 && c.credit() > 0:
		h.op = opRW
		n := min(c.out.n, c.credit(), chain.InLen-headerLen, maxPayload)
		if n <= 0 { // a buffer that holds no data: useless, hand it back
			q.Push(chain, 0)
			return true, false
		}
		h.len = uint32(n)
		p1, p2 = c.out.peek(n)
	case take(needCreditRequest, opCreditRequest):
	case take(needCredit, opCreditUpdate):
	default:
		h.op, h.flags = opShutdown, c.shutWant
		c.shutSent = c.shutWant
	}
	q.Push(chain, put(chain, &h, p1, p2))
	if h.op == opRW {
		c.out.drop(int(h.len))
		c.txCnt += h.len
		c.progress++
		if c.out.n <= bufSize/2 {
			c.wcond.Broadcast()
		}
		if c.out.n > 0 && c.credit() == 0 && !c.creditAsked {
			c.creditAsked = true
			c.need |= needCreditRequest
		}
	}
	if h.op != opRST { // each packet tells our credit
		c.fwdTold = c.fwdCnt
		c.need &^= needCredit
	}
	return c.pending(), false
}

// packet handles a packet of this connection from the guest.
func (c *Conn) packet(h *header, data iov) {
	c.mu.Lock()
	c.peerAlloc, c.peerFwd = h.bufAlloc, h.fwdCnt
	c.creditAsked = false
	gone := false
	reset := func() { // protocol error, or the answer to an orderly end
		c.need = needReset
		gone = true
	}
	switch {
	case h.op == opRST:
		gone = true
		c.need = 0
		switch {
		case c.state == stateDialing:
			c.err = syscall.ECONNREFUSED
		case !c.closed && c.peerShut&shutBoth != shutBoth:
			c.err = syscall.ECONNRESET
		}
	case h.op == opResponse && c.state == stateDialing:
		c.state = stateOpen
		c.settle()
	case c.state == stateDialing:
		c.err = syscall.ECONNREFUSED
		reset()
	case h.op == opRW:
		n := int(h.len)
		switch {
		case c.in.n+n > bufSize: // it had no credit for that
			c.err = syscall.ECONNRESET
			reset()
		case c.recvClosed: // nobody will read it
			c.fwdCnt += h.len
		case n > 0:
			c.in.reserve(n)
			a, b := c.in.free(n)
			data.read(a)
			data.read(b)
			c.in.n += n
			c.rcond.Broadcast()
		}
	case h.op == opCreditRequest:
		c.need |= needCredit
	case h.op == opCreditUpdate:
	case h.op == opShutdown:
		c.peerShut |= h.flags & shutBoth
		c.rcond.Broadcast()
		c.wcond.Broadcast()
		if c.peerShut&shutRecv != 0 {
			c.out = ring{} // it will not be taken
		}
		if c.peerShut == shutBoth {
			reset()
		}
	default: // a second request, or an unknown operation
		c.err = syscall.ECONNRESET
		reset()
	}
	if gone {
		c.dead()
	}
	more := c.pending()
	c.mu.Unlock()
	if gone {
		c.d.forget(c)
	}
	if more {
		c.d.schedule(c)
	}
}

// dead marks the connection as gone from the wire. The caller holds c.mu.
func (c *Conn) dead() {
	c.state = stateDead
	c.out = ring{}
	if c.closeTimer != nil {
		c.closeTimer.Stop()
	}
	c.settle()
	c.rcond.Broadcast()
	c.wcond.Broadcast()
}

// fail ends the connection without telling the guest.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateDead {
		return
	}
	c.err, c.need = err, 0
	c.dead()
}

// abort ends the connection with a reset.
func (c *Conn) abort() {
	c.mu.Lock()
	if c.state == stateDead {
		c.mu.Unlock()
		return
	}
	if c.need&needRequest != 0 {
		c.need = 0 // the guest never heard of it
	} else {
		c.need = needReset
	}
	c.err = net.ErrClosed
	c.dead()
	c.mu.Unlock()
	c.d.forget(c)
	c.d.schedule(c)
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "vsock", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func expired(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for {
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, c.opError("read", net.ErrClosed)
		case expired(c.readDL):
			c.mu.Unlock()
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			c.mu.Unlock()
			return 0, nil
		case c.in.n > 0:
			n := min(len(p), c.in.n)
			a, b := c.in.peek(n)
			copy(p[copy(p, a):], b)
			c.in.drop(n)
			c.fwdCnt += uint32(n)
			// Tell the guest in time, but not about every byte.
			tell := c.state == stateOpen && c.fwdCnt-c.fwdTold >= bufSize/4
			if tell {
				c.need |= needCredit
			}
			c.mu.Unlock()
			if tell {
				c.d.schedule(c)
			}
			return n, nil
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			return 0, c.opError("read", err)
		case c.peerShut&shutSend != 0 || c.recvClosed || c.state == stateDead:
			c.mu.Unlock()
			return 0, io.EOF
		}
		c.rcond.Wait()
	}
}

// Write implements net.Conn. It returns when all data is in the send buffer.
func (c *Conn) Write(p []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	done := 0
	c.mu.Lock()
	for {
		var err error
		switch {
		case c.closed:
			err = net.ErrClosed
		case expired(c.writeDL):
			err = os.ErrDeadlineExceeded
		case c.err != nil:
			err = c.err
		case c.shutWant&shutSend != 0 || c.peerShut&shutRecv != 0 || c.state == stateDead:
			err = syscall.EPIPE
		}
		if err != nil {
			c.mu.Unlock()
			return done, c.opError("write", err)
		}
		if n := min(len(p)-done, bufSize-c.out.n); n > 0 {
			c.out.put(p[done : done+n])
			done += n
			send := c.pending()
			c.mu.Unlock()
			if send {
				c.d.schedule(c)
			}
			if done == len(p) {
				return done, nil
			}
			c.mu.Lock()
			continue
		}
		if done == len(p) {
			c.mu.Unlock()
			return done, nil
		}
		c.wcond.Wait()
	}
}

// shutdown announces that this side will not do what flags say any more.
func (c *Conn) shutdown(flags uint32) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.shutWant |= flags
	if flags&shutRecv != 0 {
		c.recvClosed = true
		c.fwdCnt += uint32(c.in.n)
		c.in = ring{}
	}
	c.rcond.Broadcast()
	c.wcond.Broadcast()
	c.mu.Unlock()
	c.d.schedule(c)
	return nil
}

// CloseWrite ends the stream to the guest, after the data written so far.
func (c *Conn) CloseWrite() error { return c.shutdown(shutSend) }

// CloseRead drops what the guest sent and will send.
func (c *Conn) CloseRead() error { return c.shutdown(shutRecv) }

// Close implements net.Conn. Data already written is still delivered.
func (c *Conn) Close() error {
	if err := c.shutdown(shutBoth); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.rcond.Broadcast()
	c.wcond.Broadcast()
	if c.state != stateDead {
		c.lastOK = c.progress
		c.closeTimer = time.AfterFunc(closeTimeout, c.closeExpired)
	}
	for _, t := range []*time.Timer{c.rTimer, c.wTimer} {
		if t != nil {
			t.Stop()
		}
	}
	return nil
}

// closeExpired gives up on a guest that does not answer.
func (c *Conn) closeExpired() {
	c.mu.Lock()
	if c.state != stateDead && c.progress != c.lastOK {
		c.lastOK = c.progress
		c.closeTimer.Reset(closeTimeout)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.abort()
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return Addr{HostCID, c.key.host} }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return Addr{c.d.cid, c.key.guest} }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, &c.readDL, &c.rTimer, &c.rcond)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, &c.writeDL, &c.wTimer, &c.wcond)
}

func (c *Conn) setDeadline(t time.Time, dl *time.Time, timer **time.Timer, cond *sync.Cond) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	*dl = t
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	cond.Broadcast()
	if !t.IsZero() {
		*timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			cond.Broadcast()
			c.mu.Unlock()
		})
	}
	return nil
}

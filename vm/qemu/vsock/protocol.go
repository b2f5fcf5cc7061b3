//go:build linux

package vsock

import (
	"syscall"

	"osaurus-sandbox/vm/qemu/vhostuser"
)

// need is the set of control packets that a connection has to send. As a set of flags, it cannot be
// made to grow by a guest.
type need uint8

const (
	needRequest need = 1 << iota
	needResponse
	needReset
	needCredit
	needCreditRequest
)

// take removes one packet from the set and reports whether it was there.
func (n *need) take(one need) bool {
	had := *n&one != 0
	*n &^= one
	return had
}

// credit returns how many bytes the guest can receive. The caller holds c.mu.
func (c *Conn) credit() int {
	inFlight := c.txCnt - c.peerFwd
	if inFlight >= c.peerAlloc {
		return 0
	}
	return int(c.peerAlloc - inFlight)
}

// hasData reports whether there is data to send, regardless of credit.
func (c *Conn) hasData() bool {
	return c.state == stateOpen && len(c.wbuf) > 0 && c.shutWant&shutSend == 0 && c.peerShut&shutRecv == 0
}

// pending reports whether there is a packet to send. The caller holds c.mu.
func (c *Conn) pending() bool {
	return c.need != 0 || c.hasData() && c.credit() > 0 || c.state == stateOpen && c.shutWant&^c.shutSent != 0
}

// send sends one packet. It reports whether there are more, and whether the guest has run out of
// buffers.
func (c *Conn) send(q *vhostuser.Queue) (more, starved bool) {
	c.mu.Lock()
	defer func() { more = c.unlock() }()
	return false, !c.sendOne(q)
}

// sendOne sends a packet if there is one. It returns false if the guest has no buffer for it. The
// caller holds c.mu.
func (c *Conn) sendOne(q *vhostuser.Queue) bool {
	if !c.pending() {
		return true
	}
	chain, ok := q.Pop()
	if !ok {
		return false
	}
	h := header{srcCID: hostCID, dstCID: uint64(c.d.cid), srcPort: c.key.host, dstPort: c.key.guest,
		typ: typeStream, bufAlloc: uint32(c.window), fwdCnt: c.fwdCnt}
	var data []byte
	switch {
	case c.need.take(needReset):
		h.op, c.need = opRST, 0
	case c.need.take(needRequest):
		h.op = opRequest
	case c.need.take(needResponse):
		h.op = opResponse
	case c.hasData() && c.credit() > 0:
		h.op = opRW
		n := min(len(c.wbuf), c.credit(), chain.InLen-headerLen, maxPayload)
		if n <= 0 { // buffer without space for data: return it
			q.Push(chain, 0)
			return true
		}
		h.len = uint32(n)
		data = c.wbuf[:n]
	case c.need.take(needCreditRequest):
		h.op = opCreditRequest
	case c.need.take(needCredit):
		h.op = opCreditUpdate
	default:
		h.op, h.flags = opShutdown, c.shutWant
		c.shutSent = c.shutWant
	}
	q.Push(chain, put(chain, &h, data))
	c.sent(&h)
	return true
}

// sent updates the counters for a sent packet.
func (c *Conn) sent(h *header) {
	if h.op != opRST { // every packet carries our credit
		c.fwdTold = c.fwdCnt
		c.need &^= needCredit
	}
	if h.op != opRW {
		return
	}
	c.wbuf = c.wbuf[h.len:]
	c.txCnt += h.len
	if len(c.wbuf) == 0 {
		c.wcond.Broadcast()
	} else if c.credit() == 0 && !c.creditAsked {
		c.creditAsked = true
		c.need |= needCreditRequest
	}
}

// packet handles a packet from the guest. It unlocks c.mu even if access to data panics, because
// the handler of a broken device locks it.
func (c *Conn) packet(h *header, data iov) {
	c.mu.Lock()
	defer func() {
		if c.unlock() {
			c.d.enqueue(c, false)
		}
	}()
	if c.state != stateDead {
		c.peerAlloc, c.peerFwd = h.bufAlloc, h.fwdCnt
		c.creditAsked = false
		c.handle(h, data)
	}
}

func (c *Conn) handle(h *header, data iov) {
	switch {
	case h.op == opRST:
		c.need = 0
		switch {
		case c.state == stateDialing:
			c.closed = true // the caller never got this connection
			c.die(syscall.ECONNREFUSED)
		case c.closed || c.peerShut&shutBoth == shutBoth:
			c.die(nil)
		default:
			c.die(syscall.ECONNRESET)
		}
	case c.state == stateDialing && h.op == opResponse:
		c.state = stateOpen
		close(c.settled)
	case c.state == stateDialing:
		c.closed = true
		c.reset(syscall.ECONNREFUSED)
	case h.op == opRW:
		c.received(int(h.len), data)
	case h.op == opCreditRequest:
		c.need |= needCredit
	case h.op == opCreditUpdate:
	case h.op == opShutdown:
		c.peerShut |= h.flags & shutBoth
		c.rcond.Broadcast()
		c.wcond.Broadcast()
		if c.peerShut == shutBoth {
			c.reset(nil) // the answer to an orderly end
		}
	default: // a second request, or an unknown operation
		c.reset(syscall.ECONNRESET)
	}
}

// reset ends the connection and tells the guest so.
func (c *Conn) reset(err error) {
	c.need = needReset
	c.die(err)
}

// received handles n bytes of data from the guest.
func (c *Conn) received(n int, data iov) {
	if c.in.n+n > c.window { // it had no credit for that
		c.reset(syscall.ECONNRESET)
		return
	}
	if c.closed { // discard it
		c.fwdCnt += uint32(n)
		return
	}
	if c.rbuf != nil && c.rgot == 0 {
		c.rgot = data.read(c.rbuf[:min(n, len(c.rbuf))])
		c.consumed(c.rgot)
		n -= c.rgot
	}
	c.in.fill(&data, n)
	c.rcond.Broadcast()
}

// consumed updates the counters after n bytes were read. It widens the window, and sends a credit
// update only when the guest may run short. The guest's own window counts too: Linux sends no more than
// it would receive.
func (c *Conn) consumed(n int) {
	c.fwdCnt += uint32(n)
	theirs := int(c.peerAlloc)
	if c.state != stateOpen || int(c.fwdCnt-c.fwdTold) < min(c.window, theirs)/4 {
		return
	}
	c.need |= needCredit
	if c.window < min(theirs, lastWindow) && c.d.grow(c.window) {
		c.window *= 2
	}
}

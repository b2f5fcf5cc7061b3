//go:build linux

package vsock

import "osaurus-sandbox/vm/qemu/vhostuser"

// connList is a queue of connections, linked through them. Device.mu guards
// it; a connection is in it at most once, and not after the device released it:
// so there are never more in it than have a place.
type connList struct{ first, last *Conn }

func (l *connList) pushBack(c *Conn) {
	if c.queued {
		return
	}
	c.queued, c.prev = true, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *connList) pushFront(c *Conn) {
	if c.queued {
		return
	}
	c.queued, c.next = true, l.first
	if l.first == nil {
		l.last = c
	} else {
		l.first.prev = c
	}
	l.first = c
}

func (l *connList) pop() *Conn {
	c := l.first
	if c != nil {
		l.remove(c)
	}
	return c
}

func (l *connList) remove(c *Conn) {
	if !c.queued {
		return
	}
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.queued = nil, nil, false
}

// enqueue notes that c may have something to send.
func (d *Device) enqueue(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready.pushBack(c)
}

// schedule notes that c may have something to send, and sends what it can.
func (d *Device) schedule(c *Conn) {
	d.enqueue(c)
	d.pump()
}

// pump sends packets to the guest until there are none left or the guest has
// no buffers left. One goroutine at a time does so; others leave it their
// work. That is the goroutine that has data to send, so a small message takes
// no switch between goroutines.
func (d *Device) pump() {
	if d.pumping.Add(1) != 1 {
		return
	}
	for {
		n := d.pumping.Load()
		d.mu.Lock()
		q := d.rx
		d.mu.Unlock()
		if q != nil {
			q.Guard(func() { d.fill(q) })
		}
		if d.pumping.CompareAndSwap(n, 0) {
			return
		}
	}
}

// fill sends what there is: resets of no connection first, then one packet of
// each connection in turn.
func (d *Device) fill(q *vhostuser.Queue) {
	defer q.Notify()
	for {
		d.mu.Lock()
		strays := len(d.stray) > 0
		var c *Conn
		if !strays {
			// From here on a change of c queues it again.
			c = d.ready.pop()
		}
		d.mu.Unlock()
		switch {
		case strays:
			if !d.sendStray(q) {
				return
			}
		case c == nil:
			return
		default:
			more, starved := c.send(q)
			if starved {
				d.mu.Lock()
				d.ready.pushFront(c) // it keeps its place
				d.mu.Unlock()
				return
			}
			if more {
				d.enqueue(c)
			}
		}
	}
}

// sendStray sends one reset, and lets the guest go on when there are few left.
// It reports false if the guest has no buffer for it.
func (d *Device) sendStray(q *vhostuser.Queue) bool {
	chain, ok := q.Pop()
	if !ok {
		return false
	}
	d.mu.Lock()
	var h *header
	if len(d.stray) > 0 { // Reset may have emptied it
		h = &d.stray[0]
		d.stray = d.stray[1:]
	}
	wake := d.txPaused && len(d.stray) < maxStray/2
	d.txPaused = d.txPaused && !wake
	tx := d.tx
	d.mu.Unlock()
	if h == nil {
		q.Push(chain, 0)
		return true
	}
	q.Push(chain, put(chain, h, nil))
	if wake && tx != nil {
		tx.Wake()
	}
	return true
}

// put writes a packet into a chain of the rx queue and returns its length.
func put(c *vhostuser.Chain, h *header, data []byte) int {
	b := h.encode()
	v := iov(c.In)
	return v.write(b[:]) + v.write(data)
}

//go:build linux

package vsock

import "osaurus-sandbox/vm/qemu/vhostuser"

// enqueue adds c to the connections that may have something to send, at the front if first is set.
// It ignores released connections.
func (d *Device) enqueue(c *Conn, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, placed := d.placed[c.origin][c]; !placed || c.ready != nil {
		return
	}
	if first {
		c.ready = d.ready.PushFront(c)
	} else {
		c.ready = d.ready.PushBack(c)
	}
}

// dequeue takes c out of the queue. The caller holds d.mu.
func (d *Device) dequeue(c *Conn) {
	if c.ready != nil {
		d.ready.Remove(c.ready)
		c.ready = nil
	}
}

// schedule enqueues c and sends what it can.
func (d *Device) schedule(c *Conn) {
	d.enqueue(c, false)
	d.pump()
}

// pump sends packets until there are none left or the guest has no buffers. One goroutine pumps at
// a time, also for others. It runs on the goroutine of the sender, so a small message needs no
// goroutine switch.
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

// fill sends stray resets first, then one packet of each connection in turn.
func (d *Device) fill(q *vhostuser.Queue) {
	defer q.Notify()
	for {
		d.mu.Lock()
		strays := len(d.stray) > 0
		var c *Conn
		if e := d.ready.Front(); e != nil && !strays {
			c = e.Value.(*Conn)
			d.dequeue(c) // queued again when c changes
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
				d.enqueue(c, true)
				return
			}
			if more {
				d.enqueue(c, false)
			}
		}
	}
}

// sendStray sends one stray reset. It returns false if the guest has no buffer for it.
func (d *Device) sendStray(q *vhostuser.Queue) bool {
	chain, ok := q.Pop()
	if !ok {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	if len(d.stray) > 0 { // Reset may have emptied it
		n = put(chain, &d.stray[0], nil)
		d.stray = d.stray[1:]
	}
	q.Push(chain, n)
	return true
}

// put writes a packet into a chain of the rx queue and returns its length.
func put(c *vhostuser.Chain, h *header, data []byte) int {
	v := iov(c.In)
	return v.write(h.bytes()) + v.write(data)
}

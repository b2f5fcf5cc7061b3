//go:build linux

package vsock

import (
	"net"
	"sync"
	"time"
)

// deadline is a read or write deadline. The zero value is none. Guarded by Conn.mu.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) expired() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// set sets the deadline, and wakes waiters on cond now and when it has passed.
func (d *deadline) set(t time.Time, cond *sync.Cond) {
	d.stop()
	d.at = t
	cond.Broadcast()
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			cond.L.Lock()
			defer cond.L.Unlock()
			cond.Broadcast()
		})
	}
}

func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *Conn) setDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	if read {
		c.readDL.set(t, &c.rcond)
	}
	if write {
		c.writeDL.set(t, &c.wcond)
	}
	return nil
}

//go:build linux

package vsock

import (
	"errors"
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

func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readDL, t, &c.rcond) }

func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeDL, t, &c.wcond) }

func (c *Conn) setDeadline(d *deadline, t time.Time, cond *sync.Cond) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t, cond)
	return nil
}

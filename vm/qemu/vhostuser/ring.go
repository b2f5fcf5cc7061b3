//go:build linux

package vhostuser

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	availNoInterrupt = 1 // in the available ring's flags: do not interrupt

	// notifyDelay is how long NotifyLater may wait: long enough to cover
	// many small requests with one interrupt, too short for a person to see.
	notifyDelay = 5 * time.Millisecond
)

// one is written to an eventfd to signal it.
var one = [8]byte{1}

// signal signals an eventfd. It does not block: on EAGAIN a signal is pending.
func signal(fd int) {
	if fd >= 0 {
		_, _ = unix.Write(fd, one[:])
	}
}

// Pop takes the next chain from the driver. It reports false if there is none
// (the driver is then asked to kick when it adds one), the queue is stopped,
// or the device is broken.
func (q *Queue) Pop() (*Chain, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running || q.health.broken.Load() {
		return nil, false
	}
	idx := load16(q.avail, 2)
	if idx == q.lastAvail {
		q.wantKick()
		// The driver may have added one before it saw that.
		if idx = load16(q.avail, 2); idx == q.lastAvail {
			return nil, false
		}
	}
	if int(idx-q.lastAvail) > q.num || q.inflight >= q.num {
		q.fail(fmt.Errorf("available index %d is too far from %d", idx, q.lastAvail))
		return nil, false
	}
	head := load16(q.avail, 4+2*(int(q.lastAvail)%q.num))
	c := new(Chain)
	if err := q.walk(c, head); err != nil {
		q.fail(err)
		return nil, false
	}
	c.head, c.mem, c.epoch = head, q.mem.acquire(), q.epoch
	q.lastAvail++
	q.inflight++
	return c, true
}

// wantKick asks the driver for a kick when it adds the next chain.
func (q *Queue) wantKick() {
	if q.eventIdx { // else it always kicks
		store16(q.used, 4+8*q.num, q.lastAvail)
	}
}

// fail breaks the device because of what its driver put into this ring.
func (q *Queue) fail(err error) { q.health.fail(fmt.Errorf("queue %d: %w", q.Index, err)) }

// Push returns a chain to the driver, with n bytes written by the device. It does not notify.
func (q *Queue) Push(c *Chain, n int) {
	q.finish(c, func() {
		e := q.used[4+8*(int(q.usedIdx)%q.num):]
		le.PutUint32(e, uint32(c.head))
		le.PutUint32(e[4:], uint32(min(n, c.InLen)))
		q.usedIdx++
		store16(q.used, 2, q.usedIdx)
	})
}

// drop discards a chain without returning it to the driver.
func (q *Queue) drop(c *Chain) { q.finish(c, func() {}) }

// finish releases a chain. It calls use first unless the chain was abandoned.
func (q *Queue) finish(c *Chain, use func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	mem := c.mem
	if mem == nil {
		panic("vhostuser: chain pushed twice")
	}
	// stop waits for the chains of this epoch, so the ring is still there.
	if c.epoch == q.epoch {
		use()
		if q.inflight--; q.inflight == 0 {
			q.idle.Broadcast()
		}
	}
	*c = Chain{}
	mem.release()
}

// Notify interrupts the driver if it asked for that since the last Notify.
func (q *Queue) Notify() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notify()
}

// NotifyLater is like Notify, for chains that are not urgent. It interrupts when a quarter of the
// ring is used or after a short delay, to send one interrupt for many requests.
func (q *Queue) NotifyLater() {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.used == nil:
	case int(q.usedIdx-q.signalled) >= q.num/4:
		q.notify()
	case q.usedIdx != q.signalled && !q.notifyArmed:
		q.notifyArmed = true
		q.notifyTimer.Reset(notifyDelay)
	}
}

// notifyDue runs when notifyTimer fires.
func (q *Queue) notifyDue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notifyArmed = false
	q.notify()
}

func (q *Queue) notify() {
	if q.used == nil {
		return
	}
	old, now, valid := q.signalled, q.usedIdx, q.signalledValid
	q.signalled, q.signalledValid = now, true
	if q.eventIdx {
		// Has the index passed the driver's event since?
		event := load16(q.avail, 4+2*q.num)
		if valid && now-event-1 >= now-old {
			return
		}
	} else if load16(q.avail, 0)&availNoInterrupt != 0 {
		return
	}
	signal(q.call)
}

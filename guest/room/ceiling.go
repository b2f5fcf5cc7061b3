//go:build linux

package room

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

const (
	// settleWithin is how long a room may take to write to disk what it holds beyond a limit that is
	// lowered, before the kernel kills for it: 100 MB of a disk that is slow, or limited.
	settleWithin = 30 * time.Second
	// settleAnswer is how long whoever lowers the limit waits for that, and settleCheck how often to look.
	settleAnswer = 2 * time.Second
	settleCheck  = 20 * time.Millisecond
)

// ceiling sets the limit of memory of a room. Where the room holds more, memory.max has the caller wait in
// the kernel until enough is reclaimed, and kills when it has tried in vain for a while, though all of it
// may be on its way to the disk. So memory.high comes first: it counts at once too, as programs that want
// more are held up, and kills nothing.
type ceiling struct {
	mu      sync.Mutex
	turn    int // how often it was set, or ended
	reached int // the last turn whose limit holds in full
}

// set sets the limit, and returns when it counts.
func (c *ceiling) set(g group, limit uint64) error {
	c.mu.Lock()
	c.turn++
	if !g.over(limit) {
		defer c.mu.Unlock()
		return c.reach(g, limit)
	}
	settled := make(chan error, 1)
	go func(turn int) { settled <- c.settle(g, limit, turn) }(c.turn)
	c.mu.Unlock()
	select {
	case err := <-settled:
		return err
	case <-time.After(settleAnswer):
		return nil
	}
}

// settle has a room come below its limit, and then keeps it there, unless another one was set meanwhile.
func (c *ceiling) settle(g group, limit uint64, turn int) error {
	if !c.stands(turn) {
		return nil
	}
	// The kernel sets it before it waits, so not under the lock.
	if err := g.write("memory.high", strconv.FormatUint(limit, 10)); err != nil {
		return err
	}
	for end := time.Now().Add(settleWithin); g.over(limit) && g.unwritten() && time.Now().Before(end) && c.stands(turn); {
		time.Sleep(settleCheck)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.turn {
	case turn:
		return c.reach(g, limit)
	case c.reached: // and that write may have come after its own
		return g.write("memory.high", "max")
	}
	return nil
}

// reach has the kernel kill for more than a limit. The lock is held.
func (c *ceiling) reach(g group, limit uint64) error {
	c.reached = c.turn
	return errors.Join(g.write("memory.max", strconv.FormatUint(limit, 10)), g.write("memory.high", "max"))
}

// end leaves the limits alone from now on: they may be another room's.
func (c *ceiling) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
}

// stands reports whether no other limit was set since.
func (c *ceiling) stands(turn int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn == turn
}

func (g group) over(limit uint64) bool { return g.number("memory.current") > limit }

// unwritten reports whether the group holds what is not on disk yet.
func (g group) unwritten() bool {
	text := g.text("memory.stat")
	return value(text, "file_dirty")+value(text, "file_writeback") > 0
}

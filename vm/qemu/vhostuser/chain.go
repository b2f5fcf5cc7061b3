//go:build linux

package vhostuser

import (
	"errors"
	"fmt"
)

// A descriptor: address (8 bytes), length (4), flags (2), next (2).
const (
	descSize = 16

	descNext     = 1
	descWrite    = 2
	descIndirect = 4
)

// Chain is one request of the driver: a chain of guest buffers. The byte
// slices alias guest memory, which the guest may write at any time: copy what
// must not change between check and use. A chain is valid until Push.
type Chain struct {
	Out [][]byte // driver to device: read these
	In  [][]byte // device to driver: write these

	OutLen, InLen int // total bytes

	mem   *memory // holds the buffers
	head  uint16
	epoch int // of the queue when the chain was popped
}

// walk fills c with the buffers of the chain that starts at head. The caller
// holds q.mu.
func (q *Queue) walk(c *Chain, head uint16) error {
	table, n, i := q.desc, q.num, int(head)
	indirect := false
	// A chain cannot be longer than the largest ring. The limit also ends loops.
	for range maxQueueSize {
		if i >= n {
			return fmt.Errorf("descriptor %d of %d", i, n)
		}
		// Copy the descriptor once, then check and use the copy.
		var d [descSize]byte
		copy(d[:], table[i*descSize:])
		addr, length, flags, next := le.Uint64(d[:]), le.Uint32(d[8:]), le.Uint16(d[12:]), le.Uint16(d[14:])

		if flags&descIndirect != 0 {
			if !q.indirect || indirect || flags&descNext != 0 || length == 0 || length%descSize != 0 || length > maxQueueSize*descSize {
				return fmt.Errorf("bad indirect descriptor (%d bytes, flags %#x)", length, flags)
			}
			t, err := q.mem.contiguous(addr, uint64(length))
			if err != nil {
				return err
			}
			table, n, i, indirect = t, int(length/descSize), 0, true
			continue
		}
		if err := c.add(q.mem, addr, length, flags&descWrite != 0); err != nil {
			return err
		}
		if flags&descNext == 0 {
			return nil
		}
		i = int(next)
	}
	return errors.New("descriptor chain is too long or a loop")
}

// add appends a guest buffer.
func (c *Chain) add(mem *memory, addr uint64, length uint32, write bool) (err error) {
	if write {
		c.InLen += int(length)
		c.In, err = mem.appendGuest(c.In, addr, uint64(length))
		return err
	}
	if c.InLen > 0 {
		return errors.New("readable descriptor after a writable one")
	}
	c.OutLen += int(length)
	c.Out, err = mem.appendGuest(c.Out, addr, uint64(length))
	return err
}

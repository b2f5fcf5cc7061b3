//go:build linux

package shell

import (
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/printable"
)

const (
	// maxLeft is how many ended calls keep their streams open for background processes. One more
	// closes the oldest.
	maxLeft = 32
	// lateChars bounds the output kept of each between two calls.
	lateChars = 2000
)

// leave keeps an ended call's streams open for its background processes. The caller holds the
// lock.
func (s *session) leave(c *call) {
	c.late = newLate()
	if c.quiet() {
		return
	}
	s.left = append(s.left, c)
	if len(s.left) > maxLeft {
		s.left[0].close()
		s.left = s.left[1:]
	}
}

func newLate() *kept { return &kept{headChars: lateChars * 2 / 5, tailChars: lateChars * 3 / 5} }

// quiet reports whether the call's streams have no writers.
func (c *call) quiet() bool { return c.streams[0].ended() && c.streams[1].ended() }

// handOut returns the output since the last handOut. The caller holds the lock.
func (s *session) handOut() []*guestpb.LateOutput {
	var list []*guestpb.LateOutput
	still := s.left[:0]
	for _, c := range s.left {
		if len(c.late.buf) > 0 {
			list = append(list, &guestpb.LateOutput{Command: printable.Clip(string(c.text)), Output: c.late.output()})
			c.late = newLate()
		}
		if !c.quiet() || len(c.late.buf) > 0 {
			still = append(still, c)
		}
	}
	clear(s.left[len(still):])
	s.left = still
	return list
}

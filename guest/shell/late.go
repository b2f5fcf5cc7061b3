//go:build linux

package shell

import (
	"errors"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/printable"
)

const (
	// maxLeft is of how many calls the streams stay open for what they left in the
	// background. One more closes the oldest, as a terminal that is closed does.
	maxLeft = 32
	// lateChars is what is kept of each of these between two calls.
	lateChars = 2000
	// maxLate is how many of them one call hands out; others wait for the next.
	maxLate = 16
)

var errNothingRuns = errors.New("no command runs in it")

// leave keeps the streams of a call that has ended open for what it left in the
// background. The lock is held.
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

// quiet reports whether nobody writes into the call's streams any more.
func (c *call) quiet() bool { return c.streams[0].ended() && c.streams[1].ended() }

// handOut returns what was written since it was last asked. The lock is held.
func (s *session) handOut() []*guestpb.LateOutput {
	var list []*guestpb.LateOutput
	still := s.left[:0]
	for _, c := range s.left {
		if !c.late.empty() && len(list) < maxLate {
			list = append(list, &guestpb.LateOutput{Command: printable.Clip(string(c.text)), Output: c.late.output()})
			c.late = newLate()
		}
		if !c.quiet() || !c.late.empty() {
			still = append(still, c)
		}
	}
	clear(s.left[len(still):])
	s.left = still
	return list
}

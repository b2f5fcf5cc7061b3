//go:build linux

package service

import (
	"fmt"
	"testing"

	"osaurus-sandbox/internal/fault"
)

// TestSlotsAreShared has one room take all commands or connections that it can get. Others get some.
func TestSlotsAreShared(t *testing.T) {
	for name, s := range map[string]*slots{"commands": commandSlots(), "connections": connectionSlots()} {
		t.Run(name, func(t *testing.T) { sharesSlots(t, s) })
	}
}

func sharesSlots(t *testing.T, s *slots) {
	take := func(room string) int {
		for n := 0; ; n++ {
			if _, err := s.take(room); err != nil {
				if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
					t.Errorf("%s gets %v", room, err)
				}
				return n
			}
		}
	}
	if n := take("bob"); n != s.max-s.spared {
		t.Errorf("bob has %d", n)
	}
	for left := s.spared; left > 0; left -= few {
		if n := take(fmt.Sprint("agent", left)); n != few {
			t.Errorf("beside bob another has %d", n)
		}
	}
	if n := take("late"); n != 0 {
		t.Errorf("there were %d more than all", n)
	}
	s.release("bob")
	if n := take("bob"); n != 0 {
		t.Errorf("bob took %d of those for others", n)
	}
	if n := take("late"); n != 1 {
		t.Errorf("of the one that bob gave back, the next got %d", n)
	}
}

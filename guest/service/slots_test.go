//go:build linux

package service

import (
	"fmt"
	"testing"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// TestSlotsAreShared has one room take all commands that it can get. Others get some.
func TestSlotsAreShared(t *testing.T) {
	var s slots
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
	if n := take("bob"); n != protocol.MaxCommands-sparedCommands {
		t.Errorf("bob has %d", n)
	}
	for left := sparedCommands; left > 0; left -= fewCommands {
		if n := take(fmt.Sprint("agent", left)); n != fewCommands {
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

package mcp

import (
	"fmt"
	"testing"

	"osaurus-sandbox/config"
)

// Of one agent more than results are kept for, it is the one that has had none for
// the longest who loses them.
func TestShelfOfManyAgents(t *testing.T) {
	s := newShelf()
	id := func(n int) config.AgentID { return config.AgentID(fmt.Sprint(n)) }
	for n := range maxAgents {
		s.keep(id(n), "read", "old")
	}
	s.keep(id(0), "read", "new")
	s.keep(id(maxAgents), "read", "new")
	for n, want := range map[int]int{0: 2, 1: 0, 2: 1, maxAgents - 1: 1, maxAgents: 1} {
		if got := s.of(id(n)); len(got) != want {
			t.Errorf("%d results of agent %d are kept, want %d", len(got), n, want)
		}
	}
	for range maxKept {
		s.keep(id(2), "read", "new")
	}
	if got := s.of(id(2)); len(got) != maxKept || got[0].text != "new" {
		t.Errorf("%d results of one agent, the first %q", len(got), got[0].text)
	}
}

//go:build linux

package room

import (
	"fmt"
	"testing"

	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/internal/fault"
)

// TestSlotsAreGivenInTurn checks that a room does not get the address that another has just had, and
// that the only free slot is found.
func TestSlotsAreGivenInTurn(t *testing.T) {
	m := NewManager(Options{})
	take := func(user string) *entry {
		t.Helper()
		e, err := m.entry(user, true)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	leave := func(user string) {
		delete(m.slots, m.entries[user].slot)
		delete(m.entries, user)
	}
	for turn := range 2 * network.MaxRooms {
		if e := take("agent-bob"); e.slot != turn%network.MaxRooms {
			t.Fatalf("room %d has slot %d", turn, e.slot)
		}
		leave("agent-bob")
	}
	for n := range network.MaxRooms {
		take(fmt.Sprint("agent-", n))
	}
	if _, err := m.entry("agent-alice", true); fault.KindOf(err) != fault.Rejected {
		t.Errorf("more rooms than slots: %v", err)
	}
	if leave("agent-77"); take("agent-alice").slot != 77 {
		t.Error("the only free slot is not found")
	}
}

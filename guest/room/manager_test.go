//go:build linux

package room

import (
	"fmt"
	"testing"

	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/internal/fault"
)

// A room gets no address that another has just had, and every slot is found that is free.
func TestSlotsAreGivenInTurn(t *testing.T) {
	m := NewManager(Options{})
	take := func(user string) int {
		t.Helper()
		e, err := m.entry(user, true)
		if err != nil {
			t.Fatal(err)
		}
		return e.slot
	}
	leave := func(user string) {
		slot := m.entries[user].slot
		delete(m.entries, user)
		delete(m.slots, slot)
	}
	for turn := range 2 * network.MaxRooms {
		const user = "agent-bob"
		if slot := take(user); slot != turn%network.MaxRooms {
			t.Fatalf("room %d has slot %d", turn, slot)
		}
		leave(user)
	}
	for i := range network.MaxRooms {
		take(fmt.Sprint("agent-", i))
	}
	if _, err := m.entry("agent-alice", true); fault.KindOf(err) != fault.Rejected {
		t.Errorf("one more than there are slots: %v", err)
	}
	const free = 77
	user := fmt.Sprint("agent-", free)
	if leave(user); take("agent-alice") != free {
		t.Error("the only free slot is not found")
	}
}

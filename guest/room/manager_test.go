//go:build linux

package room

import (
	"testing"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/subnet"
)

// TestAddressesAreClaimed checks that no two rooms have the same address, also while one changes.
func TestAddressesAreClaimed(t *testing.T) {
	m := NewManager(Options{})
	first := subnet.RoomRouter().Next()
	at := func(user string, address []byte) (*entry, *guestpb.Room) {
		t.Helper()
		e, err := m.entry(user, true)
		if err != nil {
			t.Fatal(err)
		}
		return e, &guestpb.Room{User: user, Address: address}
	}
	for _, c := range []struct {
		user    string
		address []byte
		settle  bool
		refused bool
	}{
		{"alice", first.AsSlice(), true, false},
		{"bob", first.AsSlice(), false, true},
		{"bob", nil, true, false},
		{"carol", nil, true, false},
		{"alice", first.Next().AsSlice(), false, false}, // fails: she may still have the first
		{"bob", first.AsSlice(), false, true},
		{"bob", first.Next().AsSlice(), false, true},
		{"alice", first.Next().AsSlice(), true, false},
		{"bob", first.AsSlice(), true, false},
		{"bob", first.AsSlice(), true, false},
	} {
		e, spec := at(c.user, c.address)
		err := m.claim(e, spec)
		if (err != nil) != c.refused || c.refused && fault.KindOf(err) != fault.Rejected {
			t.Errorf("%s at %v: %v", c.user, c.address, err)
		}
		if c.settle {
			m.settle(e, spec)
		}
	}
}

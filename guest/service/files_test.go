//go:build linux

package service

import (
	"testing"

	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

// A room that was removed meanwhile is not a file that is not there.
func TestFilesOfNoRoom(t *testing.T) {
	s := &Service{rooms: room.NewKeeper(room.Options{})}
	if _, err := s.fileRoom(t.Context(), "agent-alice"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v, %v", fault.KindOf(err), err)
	}
}

//go:build linux

package service

import (
	"sync"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

const (
	// sparedCommands of protocol.MaxCommands are for rooms that run few.
	sparedCommands = 28
	// fewCommands is how many a room may run of the spared ones.
	fewCommands = 4
)

// slots bound the commands that run: all of them, and so that no room has all. Its
// zero value has none taken.
type slots struct {
	mu    sync.Mutex
	total int
	taken map[string]int // by room; the guest's own root is the room without a name
}

// take takes a slot for a command of a room. It must be released.
func (s *slots) take(room string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.taken[room]
	switch {
	case s.total >= protocol.MaxCommands:
		return nil, fault.Newf(fault.Rejected, "start command", room, "%d commands are running", s.total).
			Advise("Wait until one has ended.")
	case s.total >= protocol.MaxCommands-sparedCommands && own >= fewCommands:
		return nil, fault.Newf(fault.Rejected, "start command", room, "%d commands are running, and %d of them here: what is left is for others", s.total, own).
			Advise("Wait until one of its commands has ended.")
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	s.total++
	s.taken[room]++
	return func() { s.release(room) }, nil
}

func (s *slots) release(room string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.taken[room]--; s.taken[room] == 0 {
		delete(s.taken, room)
	}
}

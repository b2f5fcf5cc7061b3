//go:build linux

package service

import (
	"sync"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

const (
	// sparedCommands of protocol.MaxCommands are reserved for rooms with few commands.
	sparedCommands = 28
	// fewCommands is the number of commands up to which a room may use the reserved ones.
	fewCommands = 4
)

// slots bounds the running commands, in total and so that one room cannot use all. The zero value
// is ready to use.
type slots struct {
	mu    sync.Mutex
	total int
	taken map[string]int // by room; "" is the guest's own root
}

// take takes a slot for a command of a room. The caller must call release.
func (s *slots) take(room string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.taken[room]
	switch {
	case s.total >= protocol.MaxCommands:
		return nil, fault.Newf(fault.Rejected, "start command", room, "%d commands are running", s.total).
			Advise("Wait until one has ended.")
	case s.total >= protocol.MaxCommands-sparedCommands && own >= fewCommands:
		return nil, fault.Newf(fault.Rejected, "start command", room, "%d commands are running, %d of them in this room; the remaining slots are reserved for other rooms", s.total, own).
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

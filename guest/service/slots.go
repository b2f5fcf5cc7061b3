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
	// sparedConnections of protocol.MaxConnections are reserved for rooms with few of them.
	sparedConnections = 48
	// few is the number of commands or connections up to which a room may use the reserved ones.
	few = 4
)

// slots bounds what runs at once, in total and so that one room cannot use all.
type slots struct {
	op, are     string // for errors: "start command", "commands are running"
	max, spared int

	mu    sync.Mutex
	total int
	taken map[string]int // by room; "" is the guest's own root
}

func commandSlots() *slots {
	return &slots{op: "start command", are: "commands are running", max: protocol.MaxCommands, spared: sparedCommands, taken: map[string]int{}}
}

func connectionSlots() *slots {
	return &slots{op: opConnect, are: "connections are open", max: protocol.MaxConnections, spared: sparedConnections, taken: map[string]int{}}
}

// take takes a slot for a room. The caller must call release.
func (s *slots) take(room string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.taken[room]
	switch {
	case s.total >= s.max:
		return nil, fault.Newf(fault.Rejected, s.op, room, "%d %s", s.total, s.are).
			Advise("Wait until one has ended.")
	case s.total >= s.max-s.spared && own >= few:
		return nil, fault.Newf(fault.Rejected, s.op, room, "%d %s, %d of them in this room; the remaining slots are reserved for other rooms", s.total, s.are, own).
			Advise("Wait until one in this room has ended.")
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

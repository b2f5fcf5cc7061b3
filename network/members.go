package network

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/subnet"
)

// member is a subject that has an address.
type member struct {
	subject Subject
	addr    netip.Addr
	*budget
}

// members are the subjects by address. Frames read without a lock.
type members struct {
	byAddr atomic.Pointer[map[netip.Addr]*member]

	mu      sync.Mutex
	next    netip.Addr
	resting map[netip.Addr]time.Time
}

func newMembers() *members {
	root := &member{addr: subnet.Guest().Addr(), budget: newBudget()}
	m := &members{next: subnet.RoomRouter(), resting: map[netip.Addr]time.Time{}}
	m.byAddr.Store(&map[netip.Addr]*member{root.addr: root})
	return m
}

// at returns who has an address, or nil.
func (m *members) at(a netip.Addr) *member { return (*m.byAddr.Load())[a] }

// of returns a subject's member, or nil.
func (m *members) of(s Subject) *member {
	for _, known := range *m.byAddr.Load() {
		if known.subject == s {
			return known
		}
	}
	return nil
}

// budget returns what an agent and its plugins may have, or nil if they have no address.
func (m *members) budget(a config.AgentID) *budget {
	for _, known := range *m.byAddr.Load() {
		if known.subject.Agent == a {
			return known.budget
		}
	}
	return nil
}

// join returns a subject's member, which is new with a new address if it had none.
func (m *members) join(s Subject, now time.Time) (joined *member, isNew bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.of(s); known != nil {
		return known, false, nil
	}
	for a, since := range m.resting {
		if now.Sub(since) >= addressRest {
			delete(m.resting, a)
		}
	}
	addr, ok := m.free()
	if !ok {
		return nil, false, fault.Newf(fault.Unavailable, "give a room an address", string(s.Agent), "all addresses are in use").
			Advise("Remove agents that are not needed, or wait some minutes if many were removed just now.")
	}
	joined = &member{s, addr, m.budget(s.Agent)}
	if joined.budget == nil {
		joined.budget = newBudget()
	}
	byAddr := maps.Clone(*m.byAddr.Load())
	byAddr[addr] = joined
	m.byAddr.Store(&byAddr)
	return joined, true, nil
}

// free returns an address that nobody has or had lately. Addresses are given in turn.
func (m *members) free() (netip.Addr, bool) {
	inUse := *m.byAddr.Load()
	for first := m.next; ; {
		m.next = m.next.Next()
		if !subnet.Rooms().Contains(m.next) {
			m.next = subnet.Rooms().Addr()
		}
		last := m.next.As4()[3]
		_, resting := m.resting[m.next]
		if inUse[m.next] == nil && !resting && m.next != subnet.RoomRouter() && last != 0 && last != 255 {
			return m.next, true
		}
		if m.next == first {
			return netip.Addr{}, false
		}
	}
}

// leave takes the addresses of an agent and its plugins back, and returns who had them.
func (m *members) leave(a config.AgentID, now time.Time) []*member {
	m.mu.Lock()
	defer m.mu.Unlock()
	byAddr := maps.Clone(*m.byAddr.Load())
	var left []*member
	for _, known := range *m.byAddr.Load() {
		if known.subject.Agent == a && known.subject != (Subject{}) {
			left = append(left, known)
			delete(byAddr, known.addr)
			m.resting[known.addr] = now
		}
	}
	m.byAddr.Store(&byAddr)
	return left
}

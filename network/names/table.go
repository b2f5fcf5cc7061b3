// Package names is the gateway's DNS server, and the table of the addresses that it told each subject.
package names

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/subnet"
)

const (
	// keepAtLeast is how long an answer is remembered if its TTL is shorter: programs connect to
	// an address long after its TTL, and a name with TTL 0 must not lose the address just told.
	keepAtLeast = 10 * time.Minute
	// keepAtMost bounds a TTL that an outsider chose.
	keepAtMost = 24 * time.Hour

	// maxTold bounds the pairs of name and address of one subject, and maxPairs those of all
	// subjects. A pair takes about 400 bytes, so all of them take some 13 MiB.
	maxTold  = 3072
	maxPairs = 32768
	// maxShared bounds the names of one address, since each connection to it is decided under each
	// of them, before those of other rooms.
	maxShared = 64
)

// Table has the addresses that each subject was told for names. A subject is the address of a room.
// The oldest pairs go when there are too many.
type Table struct {
	Now func() time.Time // replaced before use, if at all

	mu       sync.Mutex
	subjects map[netip.Addr]*subject
	pairs    int
}

// subject is what one subject was told, ordered by when each pair was last told.
type subject struct {
	order    *list.List // of *pair
	byName   map[string][]*list.Element
	byAddr   map[netip.Addr][]*list.Element
	lastHeld netip.Addr
}

// pair is a name and an address that one subject was told for it.
type pair struct {
	name  string
	addr  netip.Addr
	until time.Time
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{Now: time.Now, subjects: map[netip.Addr]*subject{}} }

// Remember notes that a subject was told addresses for a name.
func (t *Table) Remember(who netip.Addr, name string, addrs []netip.Addr, ttl time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	s := t.subject(who)
	for first := s.order.Front(); first != nil && now.After(first.Value.(*pair).until); first = s.order.Front() {
		t.remove(s, first)
	}
	until := now.Add(min(max(ttl, keepAtLeast), keepAtMost))
	for _, a := range addrs {
		t.add(s, pair{name, a.Unmap(), until})
	}
}

// Lookup returns the names for which a subject was told an address, the latest last. One of Hold has
// one name.
func (t *Table) Lookup(who, addr netip.Addr) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.subjects[who], t.Now()
	if s == nil {
		return nil
	}
	var names []string
	for _, e := range s.byAddr[addr.Unmap()] {
		if p := e.Value.(*pair); !now.After(p.until) {
			names = append(names, p.name)
		}
	}
	return names
}

// Hold returns an address that stands for a name that is not resolved. A subject gets the same
// address for the same name for a day, or until it has asked for many others.
func (t *Table) Hold(who netip.Addr, name string) netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subject(who)
	until := t.Now().Add(keepAtMost)
	for _, known := range s.byName[name] {
		if p := known.Value.(*pair); subnet.Held().Contains(p.addr) {
			p.until = until
			s.order.MoveToBack(known)
			return p.addr
		}
	}
	// Addresses are given in turn, so that one is used again as late as possible.
	for s.lastHeld = s.lastHeld.Next(); len(s.byAddr[s.lastHeld]) > 0 || !usable(s.lastHeld); s.lastHeld = s.lastHeld.Next() {
		if !subnet.Held().Contains(s.lastHeld) {
			s.lastHeld = subnet.Held().Addr()
		}
	}
	t.add(s, pair{name, s.lastHeld, until})
	return s.lastHeld
}

// usable reports whether an address is in the network for held addresses and looks like a host's.
func usable(a netip.Addr) bool {
	last := a.As4()[3]
	return subnet.Held().Contains(a) && last != 0 && last != 255
}

// Knows reports whether a subject was told an address for a name, held or not.
func (t *Table) Knows(who netip.Addr, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[who]
	return s != nil && len(s.byName[name]) > 0
}

// Forget drops what a subject was told.
func (t *Table) Forget(who netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[who]; s != nil {
		t.pairs -= s.order.Len()
		delete(t.subjects, who)
	}
}

func (t *Table) subject(who netip.Addr) *subject {
	s := t.subjects[who]
	if s == nil {
		s = &subject{list.New(), map[string][]*list.Element{}, map[netip.Addr][]*list.Element{}, subnet.Held().Addr()}
		t.subjects[who] = s
	}
	return s
}

// add adds a pair, and drops the oldest beyond the limits.
func (t *Table) add(s *subject, p pair) {
	for _, e := range s.byName[p.name] {
		if known := e.Value.(*pair); known.addr == p.addr {
			if known.until.Before(p.until) {
				known.until = p.until
			}
			s.order.MoveToBack(e)
			return
		}
	}
	e := s.order.PushBack(&p)
	s.byName[p.name] = append(s.byName[p.name], e)
	s.byAddr[p.addr] = append(s.byAddr[p.addr], e)
	t.pairs++
	if shared := s.byAddr[p.addr]; len(shared) > maxShared {
		t.remove(s, shared[0])
	}
	if s.order.Len() > maxTold {
		t.remove(s, s.order.Front())
	}
	if t.pairs > maxPairs {
		largest := s
		for _, other := range t.subjects {
			if other.order.Len() > largest.order.Len() {
				largest = other
			}
		}
		t.remove(largest, largest.order.Front())
	}
}

func (t *Table) remove(s *subject, e *list.Element) {
	p := s.order.Remove(e).(*pair)
	drop(s.byName, p.name, e)
	drop(s.byAddr, p.addr, e)
	t.pairs--
}

func drop[K comparable](index map[K][]*list.Element, key K, e *list.Element) {
	rest := slices.DeleteFunc(index[key], func(other *list.Element) bool { return other == e })
	if len(rest) == 0 {
		delete(index, key)
		return
	}
	index[key] = rest
}

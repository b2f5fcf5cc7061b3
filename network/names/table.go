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

	// maxTold and maxHeld bound the pairs of name and address of one subject, and maxPairs those of
	// all subjects. A pair takes about 400 bytes, so all of them take some 13 MiB.
	maxTold  = 2048
	maxHeld  = 1024
	maxPairs = 32768
)

// Table has the addresses that each subject was told for names. A subject is the address of a room.
// The oldest pairs go when there are too many.
type Table struct {
	Now func() time.Time // replaced before use, if at all

	mu       sync.Mutex
	subjects map[netip.Addr]*subject
	pairs    int
}

type subject struct {
	told, held *book
	next       netip.Addr // the last held address that was given
}

// pair is a name and an address that one subject was told for it.
type pair struct {
	name  string
	addr  netip.Addr
	until time.Time // zero for held addresses, which have no end
}

// book is a set of pairs, ordered by when each was last told.
type book struct {
	order  *list.List // of *pair
	byName map[string][]*list.Element
	byAddr map[netip.Addr][]*list.Element
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{Now: time.Now, subjects: map[netip.Addr]*subject{}} }

func newBook() *book {
	return &book{list.New(), map[string][]*list.Element{}, map[netip.Addr][]*list.Element{}}
}

// Remember notes that a subject was told addresses for a name.
func (t *Table) Remember(who netip.Addr, name string, addrs []netip.Addr, ttl time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	s := t.subject(who)
	for first := s.told.order.Front(); first != nil && now.After(first.Value.(*pair).until); first = s.told.order.Front() {
		t.remove(s.told, first)
	}
	until := now.Add(min(max(ttl, keepAtLeast), keepAtMost))
	for _, a := range addrs {
		t.add(s.told, pair{name, a.Unmap(), until}, maxTold)
	}
}

// Lookup returns the names for which a subject was told an address, the latest last.
func (t *Table) Lookup(who, addr netip.Addr) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.subjects[who], t.Now()
	if s == nil {
		return nil
	}
	var names []string
	for _, e := range s.told.byAddr[addr.Unmap()] {
		if p := e.Value.(*pair); !now.After(p.until) {
			names = append(names, p.name)
		}
	}
	return names
}

// Hold returns an address that stands for a name that is not resolved. A subject gets the same
// address for the same name until it has asked for many others.
func (t *Table) Hold(who netip.Addr, name string) netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subject(who)
	if known := s.held.byName[name]; len(known) > 0 {
		s.held.order.MoveToBack(known[0])
		return known[0].Value.(*pair).addr
	}
	// Addresses are given in turn, so that one is used again as late as possible.
	for s.next = s.next.Next(); len(s.held.byAddr[s.next]) > 0 || !usable(s.next); s.next = s.next.Next() {
		if !subnet.Held().Contains(s.next) {
			s.next = subnet.Held().Addr()
		}
	}
	t.add(s.held, pair{name: name, addr: s.next}, maxHeld)
	return s.next
}

// usable reports whether an address is in the network for held addresses and looks like a host's.
func usable(a netip.Addr) bool {
	last := a.As4()[3]
	return subnet.Held().Contains(a) && last != 0 && last != 255
}

// Held returns the name for which a subject was told an address by Hold.
func (t *Table) Held(who, addr netip.Addr) (name string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[who]; s != nil {
		if known := s.held.byAddr[addr.Unmap()]; len(known) > 0 {
			return known[0].Value.(*pair).name, true
		}
	}
	return "", false
}

// Knows reports whether a subject was told an address for a name, held or not.
func (t *Table) Knows(who netip.Addr, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[who]
	return s != nil && len(s.told.byName[name])+len(s.held.byName[name]) > 0
}

// Forget drops what a subject was told.
func (t *Table) Forget(who netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[who]; s != nil {
		t.pairs -= s.told.order.Len() + s.held.order.Len()
		delete(t.subjects, who)
	}
}

func (t *Table) subject(who netip.Addr) *subject {
	s := t.subjects[who]
	if s == nil {
		s = &subject{newBook(), newBook(), subnet.Held().Addr()}
		t.subjects[who] = s
	}
	return s
}

// add puts a pair into a book, and drops the oldest pairs beyond the limits.
func (t *Table) add(b *book, p pair, limit int) {
	for _, e := range b.byName[p.name] {
		if known := e.Value.(*pair); known.addr == p.addr {
			if known.until.Before(p.until) {
				known.until = p.until
			}
			b.order.MoveToBack(e)
			return
		}
	}
	e := b.order.PushBack(&p)
	b.byName[p.name] = append(b.byName[p.name], e)
	b.byAddr[p.addr] = append(b.byAddr[p.addr], e)
	t.pairs++
	if b.order.Len() > limit {
		t.remove(b, b.order.Front())
	}
	if t.pairs > maxPairs {
		largest := b
		for _, s := range t.subjects {
			for _, other := range []*book{s.told, s.held} {
				if other.order.Len() > largest.order.Len() {
					largest = other
				}
			}
		}
		t.remove(largest, largest.order.Front())
	}
}

func (t *Table) remove(b *book, e *list.Element) {
	p := b.order.Remove(e).(*pair)
	drop(b.byName, p.name, e)
	drop(b.byAddr, p.addr, e)
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

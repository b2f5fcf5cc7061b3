package names_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/names"
)

var (
	alice = netip.MustParseAddr("198.18.128.5")
	bob   = netip.MustParseAddr("198.18.128.6")
	web   = netip.MustParseAddr("192.0.2.1")
)

func room(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 198<<24|18<<16|129<<8+uint32(i))))
}

func TestN14TableKeepsSubjectsApart(t *testing.T) {
	table := names.NewTable()
	table.Remember(alice, "a.org", []netip.Addr{web}, time.Minute)
	table.Remember(alice, "b.org", []netip.Addr{netip.AddrFrom16(web.As16())}, time.Minute)
	if got := table.Lookup(alice, web); !slices.Equal(got, []string{"a.org", "b.org"}) {
		t.Errorf("alice was told %q", got)
	}
	if got := table.Lookup(bob, web); got != nil {
		t.Errorf("bob was told %q", got)
	}
	held := table.Hold(alice, "c.org")
	if name := table.Lookup(alice, held); !slices.Equal(name, []string{"c.org"}) || !subnet.Held().Contains(held) {
		t.Errorf("%s is held for %q", held, name)
	}
	if name := table.Lookup(bob, held); name != nil {
		t.Errorf("bob learns of alice's %q", name)
	}
	if table.Hold(alice, "c.org") != held || table.Hold(alice, "d.org") == held {
		t.Error("held addresses are not one for each name")
	}
	if !table.Knows(alice, "a.org") || !table.Knows(alice, "c.org") || table.Knows(bob, "a.org") || table.Knows(alice, "x.org") {
		t.Error("what is known is wrong")
	}
	table.Forget(alice)
	if table.Lookup(alice, held) != nil || table.Lookup(alice, web) != nil || table.Knows(alice, "a.org") {
		t.Error("alice is not forgotten")
	}
}

// An address is remembered until its TTL is over, and for some minutes at least.
func TestTableEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := names.NewTable()
		table.Remember(alice, "zero.org", []netip.Addr{web}, 0)
		table.Remember(alice, "hour.org", []netip.Addr{web}, time.Hour)
		table.Remember(alice, "year.org", []netip.Addr{web}, 365*24*time.Hour)
		held := table.Hold(alice, "held.org")
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{
			{9 * time.Minute, []string{"zero.org", "hour.org", "year.org"}},
			{50 * time.Minute, []string{"hour.org", "year.org"}},
			{2 * time.Minute, []string{"year.org"}},
			{24 * time.Hour, nil},
		} {
			time.Sleep(step.after)
			if got := table.Lookup(alice, web); !slices.Equal(got, step.want) {
				t.Errorf("after %s more: %q, want %q", step.after, got, step.want)
			}
			if is := table.Lookup(alice, held) != nil; is != (step.want != nil) {
				t.Errorf("after %s more the held address is there: %t", step.after, is)
			}
		}
		// To be told again begins the time anew, and a shorter TTL does not end it early.
		table.Remember(alice, "again.org", []netip.Addr{web}, time.Hour)
		table.Remember(alice, "again.org", []netip.Addr{web}, 0)
		time.Sleep(30 * time.Minute)
		if got := table.Lookup(alice, web); !slices.Equal(got, []string{"again.org"}) {
			t.Errorf("told are %q", got)
		}
	})
}

// A subject that asks for very many names loses its oldest, and others lose nothing.
func TestTableIsBounded(t *testing.T) {
	at := func(j int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 3, byte(j / 32)}) }
	table := names.NewTable()
	table.Remember(bob, "bob.org", []netip.Addr{web}, time.Hour)
	first := table.Hold(bob, "held.bob.org")
	given := map[netip.Addr]int{}
	for i := range 20 {
		for j := range 2100 {
			table.Remember(room(i), fmt.Sprint("told", j, ".org"), []netip.Addr{at(j)}, time.Hour)
		}
		for j := range 1100 {
			a := table.Hold(room(i), fmt.Sprint("held", j, ".org"))
			if i == 0 {
				given[a]++
			}
			if !subnet.Held().Contains(a) {
				t.Fatalf("%s is not in the network of held addresses", a)
			}
		}
	}
	if len(given) != 1100 {
		t.Errorf("an address was used again: %d for 1100 names", len(given))
	}
	last := room(19)
	if table.Knows(last, "told0.org") || !table.Knows(last, "told2099.org") || !table.Knows(last, "held0.org") || !table.Knows(last, "held1099.org") {
		t.Error("not the oldest went")
	}
	pairs := 0
	for i := range 20 {
		for j := 0; j < 2100; j += 32 {
			pairs += len(table.Lookup(room(i), at(j)))
		}
		for j := range 1100 {
			if table.Knows(room(i), fmt.Sprint("held", j, ".org")) {
				pairs++
			}
		}
	}
	if pairs > 32768 || pairs < 32000 {
		t.Errorf("%d pairs", pairs)
	}
	if !slices.Equal(table.Lookup(bob, first), []string{"held.bob.org"}) || len(table.Lookup(bob, web)) != 1 {
		t.Error("bob's names are gone")
	}
}

// Each connection is decided under each name of its address, so an address has few. The latest told stay.
func TestNamesOfOneAddressAreBounded(t *testing.T) {
	table := names.NewTable()
	for i := range 3000 {
		table.Remember(alice, fmt.Sprint(i, ".org"), []netip.Addr{web}, time.Hour)
	}
	got := table.Lookup(alice, web)
	if len(got) != 64 || !slices.Equal(got[62:], []string{"2998.org", "2999.org"}) {
		t.Errorf("%d names: %q", len(got), got[max(0, len(got)-3):])
	}
	if table.Knows(alice, "0.org") {
		t.Error("a name without an address is known")
	}
}

// All held addresses can be used in turn.
func TestHeldAddressesComeAround(t *testing.T) {
	table := names.NewTable()
	seen := map[netip.Addr]bool{}
	for i := range 40_000 {
		seen[table.Hold(alice, fmt.Sprint(i, ".org"))] = true
	}
	if want := 128 * 254; len(seen) != want {
		t.Errorf("%d addresses were used, want %d", len(seen), want)
	}
}

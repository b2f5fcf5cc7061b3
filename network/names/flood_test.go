package names_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/network/names"
)

// Equal queries at the same time are one query to the outside.
func TestEqualQueriesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &slow{release: make(chan struct{})}
		s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: up})
		query, _ := question("slow.org", dns.TypeA).Pack()
		var done sync.WaitGroup
		for i := range 40 {
			done.Go(func() {
				m := new(dns.Msg)
				if err := m.Unpack(s.Answer(t.Context(), room(i), query, false)); err != nil || len(m.Answer) != 1 {
					t.Errorf("%v %v", m, err)
				}
			})
		}
		// The first one leaves: its lookup goes on for another.
		ctx, cancel := context.WithCancel(t.Context())
		first := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: up})
		var left sync.WaitGroup
		left.Go(func() { first.Answer(ctx, alice, query, false) })
		synctest.Wait()
		left.Go(func() {
			m := new(dns.Msg)
			if err := m.Unpack(first.Answer(t.Context(), bob, query, false)); err != nil || len(m.Answer) != 1 {
				t.Errorf("bob gets %v %v", m, err)
			}
		})
		synctest.Wait()
		if n := up.calls.Load(); n != 2 {
			t.Errorf("%d lookups run", n)
		}
		cancel()
		synctest.Wait()
		close(up.release)
		done.Wait()
		left.Wait()
		if n := up.calls.Load(); n != 2 {
			t.Errorf("%d lookups ran", n)
		}
	})
}

// A resolver that never answers is given up before the client asks again.
func TestSilentResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: &slow{}})
		query, _ := question("slow.org", dns.TypeA).Pack()
		began, m := time.Now(), new(dns.Msg)
		if err := m.Unpack(s.Answer(t.Context(), alice, query, false)); err != nil || m.Rcode != dns.RcodeServerFailure {
			t.Errorf("%v %v", m, err)
		}
		if took := time.Since(began); took >= 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// constant is a resolver that has an address for each name, and counts the bytes that leave.
type constant struct {
	mu    sync.Mutex
	bytes int
	names map[string]bool
}

func (c *constant) LookupNetIP(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += len(name)
	c.names[name] = true
	return []netip.Addr{web}, 0, nil
}

// ask returns the RCODE for a name.
func ask(t *testing.T, s *names.Server, who netip.Addr, name string) int {
	t.Helper()
	query, err := question(name, dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(s.Answer(t.Context(), who, query, false)); err != nil {
		t.Fatal(err)
	}
	return m.Rcode
}

func TestN03Tunnels(t *testing.T) {
	for _, c := range []struct {
		about  string
		length int // of a label
		most   int // bytes in an hour
	}{{"as iodine", 60, 90_000}, {"labels that are not too long", 32, 300_000}} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &constant{names: map[string]bool{}}
				s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: up})
				random := rand.New(rand.NewPCG(1, 2))
				refused := 0
				for range 3600 {
					label := fmt.Sprintf("%0*x.", c.length, random.Uint64())
					if ask(t, s, alice, strings.Repeat(label, 230/len(label))+"tunnel.co.uk") == dns.RcodeRefused {
						refused++
					}
					if ask(t, s, alice, "www.a.org") != 0 || ask(t, s, bob, "www.tunnel.co.uk") != 0 {
						t.Fatal("others are refused too")
					}
					time.Sleep(time.Second)
				}
				up.mu.Lock()
				defer up.mu.Unlock()
				sent := 0
				for name := range up.names {
					sent += len(name)
				}
				if sent > c.most || refused < 2000 {
					t.Errorf("%d bytes left in an hour, %d queries were refused", sent, refused)
				}
			})
		})
	}
}

// Builds and browsers ask for many names, and are not taken for tunnels.
func TestCommonNamesAreNoTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: &constant{names: map[string]bool{}}})
		for i := range 2000 {
			if ask(t, s, alice, fmt.Sprintf("www.site%d.com", i)) != 0 {
				t.Fatalf("site %d is refused", i)
			}
			time.Sleep(50 * time.Millisecond)
		}
		for i := range 300 {
			if ask(t, s, alice, fmt.Sprintf("d%013x.region-%d.cdn.example.net", i, i)) != 0 {
				t.Fatalf("host %d of one domain is refused", i)
			}
		}
		for range 5000 { // the same name over and over
			if ask(t, s, alice, "api.example.org") != 0 {
				t.Fatal("a name that was told is refused")
			}
		}
	})
}

// Names that are refused anyway are limited too, for their records.
func TestManyRefusedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: budgets(), Resolver: &constant{}})
		limited := 0
		for i := range 10_000 {
			if ask(t, s, alice, fmt.Sprint(i, ".denied.org")) == dns.RcodeRefused {
				limited++
			}
		}
		if limited < 6000 || ask(t, s, bob, "denied.org") != 0 {
			t.Errorf("%d of 10000 are limited", limited)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, q := range []*dns.Msg{
		question("a.org", dns.TypeA), question("denied.org", dns.TypeTXT), question("1.2.0.192.in-addr.arpa", dns.TypePTR),
		question("0x7f.1", dns.TypeA), question("localhost", dns.TypeAAAA), question(".", dns.TypeNS), question("ask", dns.TypeANY),
	} {
		b, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-3], true)
	}
	s := names.NewServer(names.Options{Table: names.NewTable(), Decide: decide, Permit: permit, Budget: func(netip.Addr) *names.Budget { return names.NewBudget() }, Resolver: &constant{names: map[string]bool{}}})
	f.Fuzz(func(t *testing.T, query []byte, stream bool) {
		s.Table.Forget(alice)
		b := s.Answer(t.Context(), alice, query, stream)
		if b == nil {
			if len(query) >= 12 && query[2]&0x80 == 0 {
				t.Error("no answer")
			}
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(b); err != nil || !m.Response || m.Id != uint16(query[0])<<8|uint16(query[1]) {
			t.Fatalf("%v: %v", m, err)
		}
		if !stream && len(b) > 1232 {
			t.Errorf("%d bytes", len(b))
		}
		for _, rr := range m.Answer {
			if !strings.EqualFold(rr.Header().Name, m.Question[0].Name) {
				t.Errorf("%v answers %v", rr, m.Question)
			}
		}
	})
}

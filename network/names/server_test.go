package names_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network/policy"
)

func TestResolve(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, u)
	u.add("a.org", "600 IN A 192.0.2.1", "600 IN A 192.0.2.2")
	for _, network := range []string{"udp", "tcp"} {
		m := g.exchange(t, network, question("A.oRg", dns.TypeA))
		if got := fmt.Sprint(addrs(m)); got != "[192.0.2.1 192.0.2.2]" || !m.RecursionAvailable || m.Rcode != 0 || reason(m) != "" {
			t.Errorf("%s: %v", network, m)
		}
		if h := m.Answer[0].Header(); h.Name != "A.oRg." || h.Ttl != 60 {
			t.Errorf("the answer is %v", h)
		}
	}
	if got := g.Table.Lookup(self, web); !slices.Equal(got, []string{"a.org"}) {
		t.Errorf("remembered is %q", got)
	}
	q := g.recorded()
	if len(q) != 2 || q[0].Name != "a.org" || q[0].Type != "A" || q[0].Subject != self || len(q[0].Addrs) != 2 || q[0].Decision.Action != policy.Allow {
		t.Errorf("recorded: %+v", q)
	}
	if m := g.exchange(t, "udp", question("nowhere.org", dns.TypeA)); m.Rcode != dns.RcodeNameError {
		t.Errorf("a name that does not exist: %v", m)
	}
	// Neither IPv6 nor encrypted hellos nor HTTP/3. These answers ask nobody.
	for _, kind := range []uint16{dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeANY, dns.TypeNS, dns.TypeCAA} {
		m := g.exchange(t, "udp", question("only"+dns.Type(kind).String()+".org", kind))
		if m.Rcode != 0 || len(m.Answer) != 0 {
			t.Errorf("%s: %v", dns.Type(kind), m)
		}
	}
	if u.wasAsked("only") {
		t.Errorf("the outside was asked: %q", u.asked)
	}
}

// For a name that is refused, nothing leaves, and its address says which name it was.
func TestN03RefusedNamesAreHeld(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, u)
	for name, want := range map[string]string{
		"secret.denied.org": "18 denied.org is not allowed",
		"ask.org":           "18 a person is asked",
		"denied":            "18 denied.org is not allowed",
		"denied.internal":   "18 denied.org is not allowed",
	} {
		m := g.exchange(t, "udp", question(name, dns.TypeA))
		held := addrs(m)
		if m.Rcode != 0 || len(held) != 1 || reason(m) != want || m.Answer[0].Header().Ttl > 10 {
			t.Errorf("%s: %v", name, m)
			continue
		}
		if got := g.Table.Lookup(self, held[0]); !slices.Equal(got, []string{name}) || !subnet.Held().Contains(held[0]) {
			t.Errorf("%s is held for %q, want %q", held[0], got, name)
		}
		for _, kind := range []uint16{dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeHTTPS} {
			if m := g.exchange(t, "udp", question(name, kind)); m.Rcode != 0 || len(m.Answer) != 0 || reason(m) != want {
				t.Errorf("%s %s: %v", name, dns.Type(kind), m)
			}
		}
		without := new(dns.Msg).SetQuestion(name+".", dns.TypeA)
		if m := g.exchange(t, "udp", without); m.IsEdns0() != nil || len(m.Answer) != 1 {
			t.Errorf("without EDNS: %v", m)
		}
	}
	if len(u.asked) > 0 {
		t.Errorf("the outside was asked for %q", u.asked)
	}
	for _, q := range g.recorded() {
		if q.Decision.Action == policy.Allow || q.Addrs != nil || q.Decision.Reason == "" {
			t.Errorf("recorded: %+v", q)
		}
	}
}

// A name whose addresses are local is refused with the reason; of mixed ones, the others are told.
func TestN05PrivateAddresses(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, nil)
	u.add("mixed.org", "0 IN A 10.0.0.1", "0 IN A 192.0.2.1", "0 IN A 169.254.169.254")
	u.add("rebind.org", "0 IN A 192.0.2.1")
	if got := fmt.Sprint(addrs(g.exchange(t, "udp", question("mixed.org", dns.TypeA)))); got != "[192.0.2.1]" {
		t.Errorf("mixed: %s", got)
	}
	g.exchange(t, "udp", question("rebind.org", dns.TypeA))
	u.add("rebind.org", "0 IN A 10.0.0.1")
	m := g.exchange(t, "udp", question("rebind.org", dns.TypeA))
	held := addrs(m)
	if len(held) != 1 || !subnet.Held().Contains(held[0]) || reason(m) != "18 local networks are closed" {
		t.Fatalf("rebound: %v", m)
	}
	if name := g.Table.Lookup(self, held[0]); !slices.Equal(name, []string{"rebind.org"}) {
		t.Errorf("held for %q", name)
	}
	if g.Table.Lookup(self, netip.MustParseAddr("10.0.0.1")) != nil || g.Table.Lookup(self, web) == nil {
		t.Error("what was told before is not pinned")
	}
	q := g.recorded()
	if last := q[len(q)-1]; last.Decision.Action != policy.Deny || last.Decision.Reason == "" {
		t.Errorf("recorded: %+v", last)
	}
}

func TestSpecialNames(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, u)
	u.add("ruled", "60 IN A 192.0.2.1")
	u.add("ruled.local", "60 IN A 192.0.2.1")
	u.add("metadata.google.internal", "60 IN A 169.254.169.254")
	u.add("127.1", "60 IN A 192.0.2.1")
	u.add("printer", "60 IN A 192.0.2.1")
	u.add("printer.local", "60 IN A 192.0.2.1")
	for name, want := range map[string]string{
		"localhost": "[127.0.0.1]", "app.localhost": "[127.0.0.1]", "LOCALHOST": "[127.0.0.1]",
		"ruled": "[192.0.2.1]", "ruled.local": "[192.0.2.1]",
		"printer": "NXDOMAIN", "printer.local": "NXDOMAIN",
		"127.1": "NXDOMAIN", "2130706433": "NXDOMAIN", "0x7f.1": "NXDOMAIN", "0x7F000001": "NXDOMAIN", "10.0.0.1": "NXDOMAIN", "a.0x": "NXDOMAIN",
		`a\.b.org`: "NXDOMAIN", `a\000.org`: "NXDOMAIN", "a b.org": "NXDOMAIN", ".": "[]",
		"metadata.google.internal": "held",
	} {
		m := g.exchange(t, "udp", question(name, dns.TypeA))
		got := fmt.Sprint(addrs(m))
		switch {
		case m.Rcode != 0:
			got = dns.RcodeToString[m.Rcode]
		case len(m.Answer) == 1 && subnet.Held().Contains(addrs(m)[0]):
			got = "held"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if m := g.exchange(t, "udp", question("localhost", dns.TypeAAAA)); m.Rcode != 0 || len(m.Answer) != 0 {
		t.Errorf("localhost AAAA: %v", m)
	}
	if u.wasAsked("printer") || u.wasAsked("127") {
		t.Errorf("the outside was asked: %q", u.asked)
	}
}

func TestOtherTypes(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, u)
	long := strings.Repeat("x", 250) + `\"` + strings.Repeat("y", 2)
	u.add("a.org", `60 IN TXT "v=spf1 -all"`, `60 IN TXT "`+long+`" "`+long+`"`, "60 IN MX 10 mx.a.org.")
	u.add("_xmpp._tcp.a.org", "60 IN SRV 1 2 5222 chat.a.org.")
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"a.org", dns.TypeTXT, "v=spf1 -all"},
		{"a.org", dns.TypeMX, "10 mx.a.org."},
		{"_xmpp._tcp.a.org", dns.TypeSRV, "1 2 5222 chat.a.org."},
	} {
		m := g.exchange(t, "tcp", question(c.name, c.kind))
		if len(m.Answer) == 0 || !strings.Contains(m.Answer[0].String(), c.want) || m.Answer[0].Header().Name != c.name+"." {
			t.Errorf("%s %s: %v", c.name, dns.Type(c.kind), m)
		}
	}
	m := g.exchange(t, "tcp", question("a.org", dns.TypeTXT))
	if texts := m.Answer[1].(*dns.TXT).Txt; len(m.Answer) != 2 || strings.Join(texts, "") != long+long {
		t.Errorf("a long text came as %q", texts)
	}
	for _, name := range []string{"1.0.0.10.in-addr.arpa", "x.in-addr.arpa", "1.2.0.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa", "9.9.0.192.in-addr.arpa"} {
		if m := g.exchange(t, "udp", question(name, dns.TypePTR)); m.Rcode != dns.RcodeNameError {
			t.Errorf("%s: %v", name, m)
		}
	}
	if u.wasAsked("in-addr.arpa") {
		t.Error("the outside was asked for an address")
	}
	closed := serve(t, u, u, self)
	if m := closed.exchange(t, "udp", question("a.org", dns.TypeTXT)); m.Rcode != 0 || len(m.Answer) != 0 {
		t.Errorf("a closed subject gets %v", m)
	}
}

func TestTruncation(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, u)
	var records []string
	for i := range 100 {
		records = append(records, fmt.Sprintf("60 IN A 192.0.2.%d", i+1))
	}
	u.add("many.org", records...)
	var texts []string
	for i := range 20 {
		texts = append(texts, fmt.Sprintf("60 IN TXT %q", fmt.Sprint(i, strings.Repeat("x", 200))))
	}
	u.add("texts.org", texts...)
	without := new(dns.Msg).SetQuestion("many.org.", dns.TypeA)
	packed, _ := without.Pack()
	if b := g.raw(t, packed); len(b) > 512 || len(b) < 400 || b[2]&2 == 0 {
		t.Errorf("without EDNS: %d bytes, %x", len(b), b[:12])
	}
	if m := g.exchange(t, "tcp", without); m.Truncated || len(m.Answer) != 64 {
		t.Errorf("by TCP: %d addresses", len(m.Answer))
	}
	big := question("texts.org", dns.TypeTXT).SetEdns0(65535, false)
	packed, _ = big.Pack()
	if b := g.raw(t, packed); len(b) > 1232 || len(b) < 900 || b[2]&2 == 0 {
		t.Errorf("with EDNS: %d bytes, %x", len(b), b[:12])
	}
	if m := g.exchange(t, "tcp", big); m.Truncated || len(m.Answer) != 20 {
		t.Errorf("by TCP: %d texts", len(m.Answer))
	}
}

// raw sends bytes by UDP and returns the answer's header and length.
func (g *gateway) raw(t *testing.T, query []byte) []byte {
	t.Helper()
	c, err := net.Dial("udp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timetest.Limit))
	if _, err := c.Write(query); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 4096)
	n, err := c.Read(reply)
	if err != nil {
		t.Fatalf("%x: %v", query, err)
	}
	return reply[:n]
}

func TestMalformedQueries(t *testing.T) {
	g := serve(t, newUpstream(t), nil)
	pack := func(change func(*dns.Msg)) []byte {
		q := question("a.org", dns.TypeA)
		change(q)
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := pack(func(*dns.Msg) {})
	for _, c := range []struct {
		what  string
		query []byte
		want  int
	}{
		{"two questions", pack(func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }), dns.RcodeFormatError},
		{"no question", pack(func(q *dns.Msg) { q.Question = nil }), dns.RcodeFormatError},
		{"an answer", pack(func(q *dns.Msg) { q.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "a.", Rrtype: 1, Class: 1}}} }), dns.RcodeFormatError},
		{"cut question", good[:20], dns.RcodeFormatError},
		{"header alone", good[:12], dns.RcodeFormatError},
		{"pointer to itself", append(slices.Clone(good[:10]), 0, 0, 0xc0, 12, 0, 1, 0, 1), dns.RcodeFormatError},
		{"class CH", pack(func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		{"AXFR", pack(func(q *dns.Msg) { q.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused},
		{"update", pack(func(q *dns.Msg) { q.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"notify", pack(func(q *dns.Msg) { q.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented},
	} {
		reply := g.raw(t, c.query)
		if len(reply) < 12 || reply[0] != c.query[0] || reply[1] != c.query[1] || reply[2]&0x80 == 0 || int(reply[3]&15) != c.want {
			t.Errorf("%s: %x, want %s", c.what, reply, dns.RcodeToString[c.want])
		}
	}
	bad := question("a.org", dns.TypeA)
	bad.IsEdns0().SetVersion(1)
	if m := g.exchange(t, "udp", bad); m.Rcode != dns.RcodeBadVers {
		t.Errorf("EDNS version 1: %v", m)
	}
	// Answers are not answered: two servers would talk forever.
	answer := slices.Clone(good)
	answer[2] |= 0x80
	for _, q := range [][]byte{answer, good[:11], nil} {
		if r := g.Answer(t.Context(), self, q, false); r != nil {
			t.Errorf("%x was answered with %x", q, r)
		}
	}
}

// A resolver that asks for A and AAAA at once gets the address without delay, and its own errors.
func TestGoResolver(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, nil)
	u.add("a.org", "60 IN A 192.0.2.1")
	r := &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, g.address)
	}}
	got, err := r.LookupNetIP(t.Context(), "ip", "a.org.")
	if err != nil || len(got) != 1 || got[0].Unmap() != web {
		t.Errorf("%v %v", got, err)
	}
	_, err = r.LookupNetIP(t.Context(), "ip", "nowhere.org.")
	if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
		t.Errorf("a name that does not exist: %v", err)
	}
	got, err = r.LookupNetIP(t.Context(), "ip", "denied.org.")
	if err != nil || len(got) != 1 || !subnet.Held().Contains(got[0].Unmap()) {
		t.Errorf("a name that is refused: %v %v", got, err)
	}
}

// A stream carries several queries, and ends with a query that is too long or with its context.
func TestStreams(t *testing.T) {
	u := newUpstream(t)
	g := serve(t, u, nil)
	u.add("a.org", "60 IN A 192.0.2.1")
	c, err := dns.DialTimeout("tcp", g.address, timetest.Limit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timetest.Limit))
	for range 3 {
		_ = c.WriteMsg(question("a.org", dns.TypeA))
	}
	for range 3 {
		if m, err := c.ReadMsg(); err != nil || len(m.Answer) != 1 {
			t.Errorf("%v %v", m, err)
		}
	}
	_, _ = c.Write(make([]byte, 1233))
	if m, err := c.ReadMsg(); err == nil {
		t.Errorf("a query of 1,233 bytes got %v", m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	client, server := net.Pipe()
	ended := make(chan struct{})
	go func() { g.ServeStream(ctx, server); close(ended) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(timetest.Limit):
		t.Error("the stream outlives its context")
	}
	_ = client.Close()
}

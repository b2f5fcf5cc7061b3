package names_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

// upstream is a real DNS server that knows some names, and a resolver that asks it. The resolver waits for longer
// than the gateway's server would, which a busy computer may need.
type upstream struct {
	names.Records
	address string
	mu      sync.Mutex
	zone    map[string][]string // of records without names, such as "60 IN A 192.0.2.1"
	asked   []string
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	l, pc := listen(t)
	u := &upstream{address: l.Addr().String(), zone: map[string][]string{}}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for _, server := range []*dns.Server{{PacketConn: pc, Handler: u}, {Listener: l, Handler: u}} {
		server.ReadTimeout, server.WriteTimeout = timetest.Limit, timetest.Limit
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		running.Go(func() { _ = server.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	u.Records = patientRecords{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, u.address)
	}}}
	return u
}

// patientRecords outlast their callers.
type patientRecords struct{ names.Records }

func (r patientRecords) LookupTXT(ctx context.Context, name string) ([]string, error) {
	return r.Records.LookupTXT(context.WithoutCancel(ctx), name)
}

func (r patientRecords) LookupMX(ctx context.Context, name string) ([]*net.MX, error) {
	return r.Records.LookupMX(context.WithoutCancel(ctx), name)
}

func (r patientRecords) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	return r.Records.LookupSRV(context.WithoutCancel(ctx), service, proto, name)
}

// listen returns sockets of the same port.
func listen(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if pc, err := net.ListenPacket("udp", l.Addr().String()); err == nil {
			return l, pc
		}
		_ = l.Close()
	}
	t.Fatal("no port is free for both")
	return nil, nil
}

func (u *upstream) add(name string, records ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.zone[name+"."] = records
}

func (u *upstream) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	name := q.Question[0].Name
	u.mu.Lock()
	u.asked = append(u.asked, strings.TrimSuffix(name, "."))
	records, ok := u.zone[name]
	u.mu.Unlock()
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	for _, text := range records {
		rr, err := dns.NewRR(name + " " + text)
		if err != nil {
			panic(err)
		}
		if rr.Header().Rrtype == q.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	if w.RemoteAddr().Network() == "udp" {
		m.Truncate(1232)
	}
	_ = w.WriteMsg(m)
}

func (u *upstream) wasAsked(part string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.asked, func(name string) bool { return strings.Contains(name, part) })
}

func (u *upstream) LookupNetIP(ctx context.Context, name string) (addrs []netip.Addr, ttl time.Duration, err error) {
	client := &dns.Client{Net: "tcp", Timeout: timetest.Limit}
	m, _, err := client.ExchangeContext(context.WithoutCancel(ctx), new(dns.Msg).SetQuestion(name+".", dns.TypeA), u.address)
	if err != nil {
		return nil, 0, err
	}
	if m.Rcode == dns.RcodeNameError {
		return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	for _, rr := range m.Answer {
		a, _ := netip.AddrFromSlice(rr.(*dns.A).A)
		addrs, ttl = append(addrs, a), time.Duration(rr.Header().Ttl)*time.Second
	}
	return addrs, ttl, nil
}

// gateway is a server on loopback. Its subject is 127.0.0.1.
type gateway struct {
	*names.Server
	address string
	mu      sync.Mutex
	queries []names.Query
}

var self = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// decide refuses names with "denied" in them, asks for those with "ask", and has a rule for "ruled".
func decide(_ netip.Addr, name string) policy.Decision {
	switch {
	case strings.Contains(name, "denied"):
		return policy.Decision{Action: policy.Deny, Reason: "denied.org is not allowed"}
	case strings.Contains(name, "ask"):
		return policy.Decision{Action: policy.Ask, Reason: "a person is asked"}
	case strings.Contains(name, "ruled"):
		return policy.Decision{Action: policy.Allow, Rule: &config.NetworkRule{Host: name}}
	}
	return policy.Decision{Action: policy.Allow}
}

func permit(_ netip.Addr, _ string, a netip.Addr) policy.Decision {
	if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return policy.Decision{Action: policy.Deny, Reason: "local networks are closed"}
	}
	return policy.Decision{Action: policy.Allow}
}

// budgets gives each subject a budget of its own.
func budgets() func(netip.Addr) *names.Budget {
	var all sync.Map
	return func(who netip.Addr) *names.Budget {
		b, _ := all.LoadOrStore(who, names.NewBudget())
		return b.(*names.Budget)
	}
}

func serve(t *testing.T, r names.Resolver, records names.Records, closed ...netip.Addr) *gateway {
	t.Helper()
	timetest.NoLeaks(t)
	g := &gateway{}
	o := names.Options{
		Table: names.NewTable(), Decide: decide, Permit: permit, Resolver: r, Records: records,
		Open:   func(who netip.Addr) bool { return !slices.Contains(closed, who) },
		Budget: budgets(),
		Record: func(q names.Query) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.queries = append(g.queries, q)
		},
	}
	g.Server = names.NewServer(o)
	l, pc := listen(t)
	g.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.ServeStream(ctx, c) })
		}
	})
	running.Go(func() {
		for buffer := make([]byte, 65536); ; {
			n, from, err := pc.ReadFrom(buffer)
			if err != nil {
				return
			}
			query := slices.Clone(buffer[:n])
			running.Go(func() {
				if reply := g.Answer(ctx, from.(*net.UDPAddr).AddrPort().Addr(), query, false); reply != nil {
					_, _ = pc.WriteTo(reply, from)
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_, _ = l.Close(), pc.Close()
		running.Wait()
	})
	return g
}

func (g *gateway) recorded() []names.Query {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.queries)
}

func question(name string, kind uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(dns.Fqdn(name), kind).SetEdns0(4096, false)
}

func (g *gateway) exchange(t testing.TB, network string, q *dns.Msg) *dns.Msg {
	t.Helper()
	c := &dns.Client{Net: network, Timeout: timetest.Limit}
	m, _, err := c.Exchange(q, g.address)
	if err != nil {
		t.Fatalf("%s %v: %v", network, q.Question, err)
	}
	return m
}

func addrs(m *dns.Msg) (out []netip.Addr) {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			addr, _ := netip.AddrFromSlice(a.A.To4())
			out = append(out, addr)
		}
	}
	return out
}

func reason(m *dns.Msg) string {
	if o := m.IsEdns0(); o != nil {
		for _, option := range o.Option {
			if e, ok := option.(*dns.EDNS0_EDE); ok {
				return fmt.Sprint(e.InfoCode, " ", e.ExtraText)
			}
		}
	}
	return ""
}

// slow is a resolver whose answers wait, except for those of fast.org.
type slow struct {
	release chan struct{}
	calls   atomic.Int64
}

func (s *slow) LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	s.calls.Add(1)
	if name != "fast.org" {
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-s.release:
		}
	}
	return []netip.Addr{web}, time.Minute, nil
}

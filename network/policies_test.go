package network

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// TestModes has the real policies, names and dialer decide: a room asks for a name and connects.
func TestModes(t *testing.T) {
	public, other, lan := netip.MustParseAddr("93.184.215.10"), netip.MustParseAddr("93.184.215.11"), netip.MustParseAddr("192.168.1.10")
	loopback := netip.MustParseAddr("127.0.0.1")
	rules := func(texts ...string) (parsed []config.NetworkRule) {
		for _, text := range texts {
			r, err := config.ParseNetworkRule(text)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, r)
		}
		return parsed
	}
	policies := map[config.AgentID]policy.Policy{
		"open":    {Mode: config.NetworkOpen, Rules: rules("deny bad.example.org", "allow nas.example.org:22", "allow localhost:22")},
		"allow":   {Mode: config.NetworkAllow, Rules: rules("allow good.example.org:22", "allow 93.184.215.11")},
		"ask":     {Mode: config.NetworkAsk},
		"none":    {Mode: config.NetworkClosed},
		"observe": {Mode: config.NetworkAllow, Observe: true},
	}
	internet := networktest.NewInternet()
	gateway := newGateway(Options{
		Dialer: internet,
		Policy: func(s Subject) policy.Policy { return policies[s.Agent] },
		Ask:    func(_ context.Context, _ Subject, t policy.Target) bool { return t.Name == "good.example.org" },
	})
	wire, err := gateway.listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gateway.Close() })
	l := &lab{Gateway: gateway, t: t, guest: networktest.NewGuest(t, wire), internet: internet}
	internet.Name("good.example.org", public)
	internet.Name("bad.example.org", other)
	internet.Name("nas.example.org", lan)
	internet.Name("rebound.example.org", lan)
	for _, a := range []netip.Addr{public, other, lan, netip.MustParseAddr("192.168.1.11"), loopback} {
		internet.Serve(t, netip.AddrPortFrom(a, 22), networktest.Echo)
	}
	for agent := range policies {
		from, err := l.Join(Subject{Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		l.guest.Add(t, from)
		for _, tt := range []struct{ to, reachedBy string }{
			{"good.example.org", "open allow ask observe"},
			{"bad.example.org", "observe"}, // the address of allow's second rule, but told for no name
			{"nas.example.org", "open observe"},
			{"rebound.example.org", "observe"},
			{"unknown.example.org", ""},
			{public.String(), "open allow observe"},
			{other.String(), "open allow observe"},
			{"192.168.1.11", "observe"},
			{"169.254.169.254", ""},
			{subnet.Gateway().String(), "open observe"},
		} {
			t.Run(string(agent)+" to "+tt.to, func(t *testing.T) {
				c, err := l.connect(from, tt.to)
				if err == nil {
					defer c.Close()
					_, err = networktest.Exchange(c, "SSH-2.0-test\r\n")
				}
				if want := strings.Contains(" "+tt.reachedBy+" ", " "+string(agent)+" "); (err == nil) != want {
					t.Errorf("got %v, want it reached: %v", err, want)
				}
			})
		}
	}
}

// connect resolves a name as a room does, and connects to port 22.
func (l *lab) connect(from netip.Addr, host string) (net.Conn, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		query, err := l.guest.DialUDP(from, netip.AddrPortFrom(subnet.Gateway(), 53))
		if err != nil {
			return nil, err
		}
		defer query.Close()
		answer, err := exchange(query, host)
		if err != nil {
			return nil, err
		}
		found := addresses(answer)
		if len(found) == 0 {
			return nil, &net.DNSError{Err: "no address", Name: host}
		}
		addr = netip.MustParseAddr(found[0])
	}
	return l.dial(from, addr, 22)
}

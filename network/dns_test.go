package network

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// exchange asks for the addresses of a name.
func exchange(c net.Conn, name string) (*dns.Msg, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	dc := &dns.Conn{Conn: c}
	if err := dc.WriteMsg(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)); err != nil {
		return nil, err
	}
	return dc.ReadMsg()
}

func addresses(m *dns.Msg) (addrs []string) {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			addrs = append(addrs, a.A.String())
		}
	}
	return addrs
}

// named is a lab in which alice may resolve good.example and nothing else.
func named(t *testing.T) *lab {
	l := newLab(t)
	l.internet.Name("good.example", server)
	l.internet.Name("inside.example", private)
	l.set("alice", testRules{byName: true, decide: func(t policy.Target) policy.Decision {
		if strings.HasSuffix(t.Name, "d.example") && !t.Addr.IsPrivate() || t.Name == "inside.example" && !t.Addr.IsValid() {
			if t.Name != "bad.example" {
				return allowed
			}
		}
		return denied
	}})
	return l
}

func TestN03EveryNameServer(t *testing.T) {
	l := named(t)
	for _, at := range []netip.Addr{subnet.Gateway(), netip.MustParseAddr("8.8.8.8"), private} {
		c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(at, 53))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := exchange(c, "good.example")
		c.Close()
		if err != nil || len(addresses(answer)) != 1 || addresses(answer)[0] != server.String() {
			t.Errorf("%v by UDP: %v, %v", at, answer, err)
		}
		l.flow()

		stream, err := l.dial(l.alice, at, 53)
		if err != nil {
			t.Fatal(err)
		}
		answer, err = exchange(stream, "good.example")
		stream.Close()
		if err != nil || len(addresses(answer)) != 1 || addresses(answer)[0] != server.String() {
			t.Errorf("%v by TCP: %v, %v", at, answer, err)
		}
		if f := l.flow(); f.Target.Name != "good.example" || f.Subject.Agent != "alice" {
			t.Errorf("recorded %+v", f)
		}
	}
	if dials := l.internet.Dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestConnectionsNeedANameThatWasAskedFor(t *testing.T) {
	l := named(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 22), networktest.Echo)
	if _, err := l.dial(l.alice, server, 22); err == nil {
		t.Fatal("connected to an address that was not told")
	}
	l.flow()
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(subnet.Gateway(), 53))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := exchange(c, "good.example"); err != nil {
		t.Fatal(err)
	}
	l.flow()
	conn, err := l.dial(l.alice, server, 22)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if f := l.flow(); f.Target.Name != "good.example" {
		t.Errorf("recorded %+v", f)
	}
	answer, err := exchange(c, "inside.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses(answer) {
		if a == private.String() {
			t.Error("a private address was told")
		}
	}

	// Another subject was told nothing.
	bob := l.room("bob", nil)
	l.mu.Lock()
	l.rules["bob"] = l.rules["alice"]
	l.mu.Unlock()
	if _, err := l.dial(bob, server, 22); err == nil {
		t.Error("bob connected to what alice was told")
	}
}

package network

import (
	"net/netip"
	"slices"
	"time"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/policy"
)

// Ports with a meaning of their own.
const (
	portDNS        = 53
	portDNSOverTLS = 853
	portHTTPS      = 443
)

// localhost is the name of this computer's loopback in rules. Guests reach it by the gateway's
// address.
const localhost = "localhost"

// rules are a policy.Policy.
type rules interface {
	Decide(t policy.Target, now time.Time) policy.Decision
	ByName() bool
	Opened(t policy.Target, now time.Time) bool
}

// told has the names for which subjects were told addresses. *names.Table implements it.
type told interface {
	// Lookup returns the names for which a subject was told an address, the latest last.
	Lookup(subject, addr netip.Addr) []string
	// Held returns the name that an address of subnet.Held stands for.
	Held(subject, addr netip.Addr) (name string, ok bool)
}

// verdict says what happens to a flow that a subject wants.
type verdict struct {
	target   policy.Target
	decision policy.Decision
	// names are those for which the subject was told the address. If sniff is set, the first
	// bytes of the client must ask for one of them.
	names []string
	sniff bool
	// opened is set if each request has to be decided.
	opened bool
	// prohibited is set for a refusal that is better told by ICMP than by a reset.
	prohibited bool
}

// refused returns a verdict that no rule can change.
func refused(t policy.Target, reason string) verdict {
	return verdict{target: t, decision: policy.Decision{Action: policy.Deny, Reason: reason}, prohibited: true}
}

// decide decides about a flow from its addresses alone. It neither waits nor allocates much: it is
// called for each packet that begins a flow.
func (g *Gateway) decide(m *member, protocol policy.Protocol, to netip.AddrPort) verdict {
	t := policy.Target{Protocol: protocol, Addr: to.Addr(), Port: to.Port()}
	addr := to.Addr()
	switch {
	case addr == subnet.Gateway():
		t.Name, t.Addr = localhost, netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return g.weigh(m, t, []string{localhost})
	case subnet.Rooms().Contains(addr), subnet.Guest().Contains(addr):
		return refused(t, "rooms do not reach each other")
	case subnet.Held().Contains(addr):
		name, ok := g.names.Held(m.addr, addr)
		if !ok {
			return refused(t, "this address was told for no name")
		}
		t.Name, t.Addr = name, netip.Addr{}
		return g.weigh(m, t, []string{name})
	case !addr.IsGlobalUnicast() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast():
		return refused(t, "the address is not that of one computer")
	}
	return g.weigh(m, t, g.names.Lookup(m.addr, addr))
}

// weigh asks the policy about a target under each of its names. The latest one that is allowed
// counts, then the latest for which a person is asked.
func (g *Gateway) weigh(m *member, t policy.Target, names []string) verdict {
	p, now := g.policy(m.subject), time.Now()
	v := verdict{target: t, names: names}
	if len(names) == 0 {
		v.decision = judge(p, t, now)
	}
	for i, name := range slices.Backward(names) {
		t.Name = name
		d := judge(p, t, now)
		better := d.Action == policy.Allow || d.Action == policy.Ask && v.decision.Action == policy.Deny
		if i == len(names)-1 || better {
			v.target, v.decision = t, d
		}
		if d.Action == policy.Allow {
			break
		}
	}
	v.complete(p, now)
	return v
}

// complete fills in how the flow is treated if it is not refused.
func (v *verdict) complete(p rules, now time.Time) {
	d, t := v.decision, v.target
	if d.Action == policy.Deny {
		v.prohibited = t.Addr.IsValid() && !public(t.Addr)
		return
	}
	byPrefix := d.Rule != nil && d.Rule.Prefix.IsValid()
	v.sniff = t.Protocol == policy.TCP && p.ByName() && t.Name != "" && t.Name != localhost && !byPrefix && !d.Observed
	v.opened = t.Protocol == policy.TCP && p.Opened(t, now)
	if v.sniff || !p.ByName() || byPrefix {
		return
	}
	if t.Protocol == policy.UDP && t.Port == portHTTPS && !d.Observed {
		v.decision = policy.Decision{Action: policy.Deny, Reason: "QUIC hides the name that it asks for; programs use TCP instead"}
	}
}

// judge is Decide, except that an address that was told for no name is refused where names decide,
// unless a rule has the address.
func judge(p rules, t policy.Target, now time.Time) policy.Decision {
	d := p.Decide(t, now)
	if d.Action == policy.Allow && !d.Observed && t.Name == "" && p.ByName() && (d.Rule == nil || d.Rule.Host != "") {
		return policy.Decision{Action: policy.Deny, Reason: "the address was not told for an allowed name"}
	}
	return d
}

func public(a netip.Addr) bool { return a.IsGlobalUnicast() && !a.IsPrivate() }

// explained reports whether a refusal is told by a page or an alert: the client most likely speaks
// HTTP or TLS. Others get a reset, which they report best.
func (v *verdict) explained() bool {
	if v.target.Protocol != policy.TCP {
		return false
	}
	switch v.target.Port {
	case 80, portHTTPS, 8080, 8443:
		return true
	}
	return false
}

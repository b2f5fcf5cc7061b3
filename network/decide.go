package network

import (
	"net/netip"
	"slices"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/policy"
)

// Ports with a meaning of their own.
const (
	PortDNS   = 53
	portHTTPS = 443
)

// rules are a policy.Policy.
type rules interface {
	Decide(t policy.Target, now time.Time) policy.Decision
	Resolve(name string, now time.Time) policy.Decision
	ByName() bool
	HasNames(now time.Time) bool
	Opened(t policy.Target, now time.Time) bool
}

// verdict says what happens to a flow that a subject wants.
type verdict struct {
	target   policy.Target
	decision policy.Decision
	// names are the names that the name server resolved to this address for the subject. If sniff is set, the first
	// bytes of the client must ask for one of them.
	names []string
	sniff bool
	// guard is set if the first message may name a host that is closed, whose requests are read, or to which secrets are
	// bound.
	guard bool
	// opened is set if each request has to be decided.
	opened bool
	// prohibited is set for a refusal that is better told by ICMP than by a reset.
	prohibited bool
	// quiet is set if the flow is not recorded: its queries are.
	quiet bool
}

// guarded reports whether the client need not say a name: only some names matter.
func (v *verdict) guarded() bool { return v.guard && !v.opened && !v.sniff }

// policyOf returns what decides about a member's flows.
func (g *Gateway) policyOf(m *member) rules {
	if d, over := m.count(0, time.Now()); over {
		return exhausted(d)
	}
	return g.policy(m.subject)
}

// admit decides about a flow by its first packet. If it is not admitted, answered says whether the
// packet was answered.
func (g *Gateway) admit(m *member, protocol policy.Protocol, to netip.AddrPort, pkt *stack.PacketBuffer) (v verdict, admitted, answered bool) {
	if !m.fresh.Allow() {
		g.exceed(m, policy.Target{Protocol: protocol, Addr: to.Addr(), Port: to.Port()}, "too many new connections in a second")
		return v, false, false
	}
	v = g.decide(m, protocol, to)
	if v.decision.Action != policy.Deny || v.explained() {
		return v, true, false
	}
	g.refused.Add(1)
	g.report(m, v.target, v.decision, "")
	if v.prohibited {
		g.reject(pkt, stack.RejectIPv4WithICMPAdminProhibited)
	}
	return v, false, v.prohibited
}

// decide decides about a flow from its addresses alone. It neither waits nor allocates much: it is
// called for each packet that begins a flow.
func (g *Gateway) decide(m *member, protocol policy.Protocol, to netip.AddrPort) verdict {
	t := policy.Target{Protocol: protocol, Addr: to.Addr(), Port: to.Port()}
	if to.Port() == PortDNS { // answered here, whatever server was meant
		return verdict{target: t, decision: policy.Decision{Action: policy.Allow}, quiet: true}
	}
	told := g.names.Lookup(m.addr, to.Addr())
	if subnet.Held().Contains(to.Addr()) && len(told) > 0 {
		t.Addr = netip.Addr{}
	}
	if reason := policy.Unreachable(t); reason != "" {
		return verdict{target: t, decision: policy.Decision{Action: policy.Deny, Reason: reason}, prohibited: !public(t.Addr)}
	}
	if to.Addr() == subnet.Gateway() {
		t.Addr, told = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil // this computer
	}
	return g.weigh(m, t, told)
}

// weigh asks the policy about a target under each of its names. The latest one that is allowed
// counts, then the latest for which a person is asked.
func (g *Gateway) weigh(m *member, t policy.Target, names []string) verdict {
	p, now := g.policyOf(m), time.Now()
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
	g.complete(&v, m.subject, p, now)
	return v
}

// complete fills in how the flow is treated if it is not refused.
func (g *Gateway) complete(v *verdict, s Subject, p rules, now time.Time) {
	t := v.target
	if t.Protocol == policy.ICMP && v.decision.Action == policy.Ask {
		v.decision.Action = policy.Deny // nobody is asked about a ping
	}
	if v.decision.Action == policy.Deny {
		v.prohibited = t.Protocol == policy.ICMP || t.Addr.IsValid() && !public(t.Addr)
		return
	}
	t.Protocol = policy.TCP
	opened := p.Opened(t, now) || t.Name != "" && g.options.Opens != nil && g.options.Opens(s, t.Name, nil)
	switch v.target.Protocol {
	case policy.TCP:
		byPrefix := v.decision.Rule != nil && v.decision.Rule.Prefix.IsValid()
		v.opened = opened
		v.guard = p.HasNames(now) || g.options.Opens != nil && g.options.Opens(s, "", nil)
		v.sniff = p.ByName() && t.Name != "" && !byPrefix && !v.decision.Observed
	case policy.UDP:
		if opened && t.Port == portHTTPS {
			v.decision = policy.Decision{Action: policy.Deny, Rule: v.decision.Rule, Reason: policy.HiddenByQUIC}
		}
	}
}

// judge is Decide, except that an address that was told for no name is refused where names decide,
// unless a rule has the address.
func judge(p rules, t policy.Target, now time.Time) policy.Decision {
	d := p.Decide(t, now)
	if d.Action == policy.Allow && !d.Observed && t.Name == "" && p.ByName() && (d.Rule == nil || !d.Rule.Prefix.IsValid() && d.Rule.Host != config.Localhost && d.Rule.Host != "*") {
		return policy.Decision{Action: policy.Deny, Reason: "the address was not told for an allowed name"}
	}
	return d
}

func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !subnet.Held().Contains(a)
}

// explained reports whether a refusal is told by a page or an alert: the client most likely speaks
// HTTP or TLS. Others get a reset, which they report best.
func (v *verdict) explained() bool {
	return v.target.Protocol == policy.TCP && slices.Contains([]uint16{80, portHTTPS, 8080, 8443}, v.target.Port)
}

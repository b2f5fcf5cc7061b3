package network

import (
	"net/netip"
	"time"

	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

// newNameServer returns the name server of all subjects.
func (g *Gateway) newNameServer() *names.Server {
	records, _ := g.dialer.(names.Records)
	return names.NewServer(names.Options{
		Table: g.names, Decide: g.mayResolve, Permit: g.mayLearn, Record: g.recordQuery,
		Resolver: g.dialer, Records: records,
		Open: func(a netip.Addr) bool { return !g.policyAt(a).ByName() },
		Budget: func(a netip.Addr) *names.Budget {
			if m := g.members.at(a); m != nil {
				return m.names
			}
			return nil
		},
	})
}

// policyAt returns what decides about an address. One that nobody has reaches nothing.
func (g *Gateway) policyAt(a netip.Addr) rules {
	if m := g.members.at(a); m != nil {
		return g.policyOf(m)
	}
	return policy.Policy{}
}

// mayResolve decides whether a subject may resolve a name.
func (g *Gateway) mayResolve(a netip.Addr, name string) policy.Decision {
	return g.policyAt(a).Resolve(name, time.Now())
}

// mayLearn decides whether a subject may be told an address for a name. Each flow to it is decided
// again: this keeps programs from trying an address in vain.
func (g *Gateway) mayLearn(a netip.Addr, name string, addr netip.Addr) policy.Decision {
	p, now := g.policyAt(a), time.Now()
	t := policy.Target{Protocol: policy.TCP, Name: name, Addr: addr}
	if name != "" {
		if d := p.Resolve(name, now); d.Rule != nil { // it may be for a protocol and a port
			t.Port = d.Rule.FirstPort
			if d.Rule.Protocol != "" {
				t.Protocol = policy.Protocol(d.Rule.Protocol)
			}
		}
	}
	return p.Decide(t, now)
}

// recordQuery records a query that was answered.
func (g *Gateway) recordQuery(q names.Query) {
	m := g.members.at(q.Subject)
	if m == nil {
		return
	}
	if q.Decision.Action == policy.Deny {
		g.refused.Add(1)
	}
	g.report(m, policy.Target{Protocol: policy.UDP, Name: q.Name, Port: PortDNS}, q.Decision, q.Error)
}

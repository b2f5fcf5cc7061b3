package egress

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
)

// lookupLimit is how long resolving a name may take: a person waits.
const lookupLimit = 10 * time.Second

// Explanation says what would happen to a flow, and why.
type Explanation struct {
	Target    policy.Target
	Addresses []netip.Addr // of the name
	Decision  policy.Decision
	Mode      config.NetworkMode
	Source    Source // of the deciding rule, if there is one
}

// Lookup resolves a name.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// Explain says what would happen to a subject's flow. A name that does not resolve is decided
// without an address.
func (p *Policies) Explain(ctx context.Context, s network.Subject, t policy.Target, lookup Lookup) Explanation {
	of, now := p.Of(s), time.Now()
	e := Explanation{Mode: of.Mode}
	if t.Addr.IsValid() {
		e.Target, e.Decision = decide(of, t, now)
	} else if e.Target, e.Decision = (policy.Target{Name: t.Name}), of.Resolve(t.Name, now); e.Decision.Action != policy.Deny || t.Name == config.Localhost {
		ctx, cancel := context.WithTimeout(ctx, lookupLimit)
		defer cancel()
		e.Addresses, _ = lookup(ctx, t.Name)
		if len(e.Addresses) == 0 {
			e.Target, e.Decision = decide(of, t, now)
			e.Decision.Reason += "; this computer finds no address for the name"
		}
		for i, addr := range e.Addresses {
			t.Addr = addr.Unmap()
			if target, d := decide(of, t, now); i == 0 || severity(d) < severity(e.Decision) {
				e.Target, e.Decision = target, d
			}
		}
	}
	agent, err := p.Agents.Get(string(s.Agent))
	if err != nil {
		return e
	}
	e.Decision.Advice = strings.ReplaceAll(e.Decision.Advice, "NAME", string(agent.Name))
	if r := e.Decision.Rule; r != nil {
		for _, known := range p.Rules(agent) {
			if known.String() == r.String() {
				e.Source = known.Source
				break
			}
		}
	}
	return e
}

// decide decides about a flow as the gateway does, which reads requests only of flows that it opens.
func decide(p policy.Policy, t policy.Target, now time.Time) (policy.Target, policy.Decision) {
	if t.Port == network.PortDNS {
		return t, policy.Decision{Action: policy.Allow, Reason: "the gateway answers DNS queries itself, whatever server is asked"}
	}
	if reason := policy.Unreachable(t); reason != "" {
		return t, policy.Decision{Action: policy.Deny, Reason: reason}
	}
	if !p.Opened(t, now) {
		t.Method, t.Path = "", ""
	}
	return t, p.Decide(t, now)
}

// severity orders decisions by how much they stand in the way.
func severity(d policy.Decision) int {
	return slices.Index([]policy.Action{policy.Allow, policy.Ask, policy.Deny}, d.Action)
}

// defaultPort returns the port of a scheme that people ask about, or "".
func defaultPort(scheme string) string {
	return map[string]string{
		"http": "80", "ws": "80", "https": "443", "wss": "443", "ssh": "22", "git+ssh": "22", "ftp": "21", "git": "9418", "": "443",
	}[scheme]
}

// ParseTarget parses a URL, HOST, HOST:PORT or an address, also after "tcp " or "udp ". Without a
// port it is 443.
func ParseTarget(text string) (policy.Target, error) {
	refuse := func(why string) (policy.Target, error) {
		return policy.Target{}, fault.Newf(fault.InvalidArgs, "read destination", text, "%s", why).
			Advise("Write a URL, HOST or HOST:PORT, such as https://api.example.org/v1.")
	}
	t := policy.Target{Protocol: policy.TCP}
	rest := text
	if protocol, after, ok := strings.Cut(text, " "); ok {
		if t.Protocol = policy.Protocol(protocol); t.Protocol != policy.TCP && t.Protocol != policy.UDP {
			return refuse("the protocol is tcp or udp")
		}
		rest = after
	}
	u := &url.URL{Host: rest}
	if addr, err := netip.ParseAddr(strings.Trim(rest, "[]")); err == nil {
		u.Host = net.JoinHostPort(addr.String(), "443")
	} else if strings.Contains(rest, "://") {
		if u, err = url.Parse(rest); err != nil {
			return refuse("not a URL")
		}
		if u.Scheme == "http" || u.Scheme == "https" {
			t.Method, t.Path = "GET", cmp.Or(u.Path, "/")
		}
	} else if u, err = url.Parse("//" + rest); err != nil || u.Path != "" || u.User != nil {
		return refuse("not a host")
	}
	port, err := config.ParsePort(cmp.Or(u.Port(), defaultPort(u.Scheme)))
	if err != nil {
		return refuse("the port is missing or invalid")
	}
	t.Port = uint16(port)
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		t.Addr = addr.Unmap()
	} else if t.Name, err = config.ParseHost(u.Hostname()); err != nil {
		return refuse(err.Error())
	}
	return t, nil
}

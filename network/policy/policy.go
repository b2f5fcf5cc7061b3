// Package policy decides what a subject may reach. It does no I/O.
package policy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/subnet"
)

// Policy is what one subject may reach. The zero value reaches nothing.
type Policy struct {
	Mode config.NetworkMode
	// Observe records what would be refused, and lets it pass. It does not open Mode none.
	Observe bool
	// Rules of all agents come first, then the agent's. A deny wins over every allow.
	Rules []config.NetworkRule
	// Shared is the number of Rules that apply to all agents.
	Shared int
	// Off is whether the whole guest has no network.
	Off bool
	// Hosts, unless nil, are the only hosts that the subject reaches: those that a plugin
	// declares. The rest of the policy still applies to them.
	Hosts []string
	// Local are the networks that this computer is on, with its addresses there. They are closed
	// like private ranges, and its addresses like its loopback.
	Local []netip.Prefix
}

// Of returns the policy of an agent.
func Of(home config.Settings, agent config.AgentSettings) Policy {
	p := Policy{
		Mode: agent.Network, Observe: agent.NetworkObserve,
		Rules: slices.Concat(home.NetworkRules, agent.NetworkRules), Shared: len(home.NetworkRules),
	}
	if home.Network == config.NetworkNone {
		p.Mode, p.Off = config.NetworkClosed, true
	}
	return p
}

// Protocol is what a flow speaks.
type Protocol string

const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp" // only rules without protocol and ports allow or deny it
)

// Target is what a flow goes to. Name is empty for an address that the subject was not told for a
// name. Addr is invalid while only the name is known. Method and Path are set for an HTTP
// request that the gateway reads.
type Target struct {
	Protocol     Protocol
	Name         string // lower case, without a trailing dot
	Addr         netip.Addr
	Port         uint16
	Method, Path string
}

// String returns "api.example.org:443". This computer is "localhost".
func (t Target) String() string {
	host := t.Name
	if host == "" && t.Addr.IsValid() {
		host = t.Addr.String()
		if t.Addr.IsLoopback() {
			host = config.Localhost // as in rules
		}
	}
	if t.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.Port)))
}

// request returns "POST to api.example.org:443".
func (t Target) request() string {
	if t.Method == "" {
		return t.String()
	}
	return printable.Line(t.Method, maxMethod) + " to " + t.String()
}

const maxMethod = 20 // bytes in a reason

// Action is what happens to a flow.
type Action string

const (
	Allow Action = "allow"
	Deny  Action = "deny"
	Ask   Action = "ask" // hold it while a person is asked
)

// Decision says what happens to a flow and why.
type Decision struct {
	Action Action
	// Rule is the deciding rule, or nil if the mode decides.
	Rule *config.NetworkRule
	// Reason is a sentence for people and programs: "local networks are closed".
	Reason string
	// Advice is the command with which a person changes the decision, or empty. NAME stands for
	// the agent's name.
	Advice string
	// Observed reports that a refusal was turned into Allow by Observe.
	Observed bool
}

const (
	quicPort       = 443
	dnsPrivatePort = 853 // DNS over TLS, and over QUIC
)

// HiddenByQUIC is the reason for a refusal of QUIC to a host whose requests are decided.
const HiddenByQUIC = "requests to this host are read, and QUIC hides them; use TCP"

// Unreachable returns why nothing at a target can be reached, whatever the policy is, or "".
func Unreachable(t Target) string {
	switch a := t.Addr; {
	case t.Port == dnsPrivatePort:
		return "the gateway is the only name server"
	case !a.IsValid() || a == subnet.Gateway():
		return ""
	case subnet.Rooms().Contains(a), subnet.Guest().Contains(a):
		return "rooms do not reach each other"
	case subnet.Held().Contains(a):
		return "this address stands for no name"
	case !a.IsGlobalUnicast() && !a.IsLoopback() && !a.IsLinkLocalUnicast():
		return "the address does not belong to a single computer"
	}
	return ""
}

// Decide decides about a flow whose name and address are known.
func (p Policy) Decide(t Target, now time.Time) Decision {
	if t.Name != "" && !isName(t.Name) {
		return Decision{Action: Deny, Reason: "this is not a host name"}
	}
	t.Addr = plainAddr(t.Addr)
	return p.observed(p.decide(t, p.closedRange(t.Addr), now, matches))
}

// Resolve decides whether a name may be resolved. Its target has no address, and port 0.
func (p Policy) Resolve(name string, now time.Time) Decision {
	switch {
	case !isName(name):
		return Decision{Action: Deny, Reason: "this is not a host name"} // also 0x7f.1, which programs take for an address
	case matchesName(config.Localhost, name) || matchesName("*."+config.Localhost, name):
		return Decision{Action: Deny, Reason: "localhost is the room itself"}
	}
	return p.observed(p.decide(Target{Name: name}, nil, now, namesAll))
}

// namesAll reports whether a rule speaks of a name that is to be resolved: an allow for any part of
// it, a deny for all of it.
func namesAll(r *config.NetworkRule, t *Target) bool {
	isPart := r.Protocol != "" || r.FirstPort != 0 || r.HTTP()
	return !(r.Deny && isPart) && matchesHost(r, t)
}

// ByName reports whether names decide, so that SNI and Host have to agree with them.
func (p Policy) ByName() bool {
	return p.Mode == config.NetworkAllow || p.Mode == config.NetworkAsk || p.Hosts != nil
}

// HasNames reports whether rules deny hosts, or read their requests, by name. Then SNI and Host matter also where names
// do not decide.
func (p Policy) HasNames(now time.Time) bool {
	return slices.ContainsFunc(p.Rules, func(r config.NetworkRule) bool {
		named := r.Set != "" || r.Host != "" && r.Host != "*" && r.Host != config.Localhost
		return named && (r.Deny || r.HTTP()) && !r.Expired(now)
	})
}

// Opened reports whether a flow to a name has to be opened: a rule for it has methods or paths.
func (p Policy) Opened(t Target, now time.Time) bool {
	if !p.isOn() || t.Protocol != TCP {
		return false
	}
	t.Addr = plainAddr(t.Addr)
	return p.hasHTTP(t, now, true) || p.hasHTTP(t, now, false)
}

// hasHTTP reports whether a rule for a target has methods or paths.
func (p Policy) hasHTTP(t Target, now time.Time, deny bool) bool {
	t.Method, t.Path = "", ""
	return p.find(now, deny, func(r *config.NetworkRule) bool {
		any := *r
		any.Methods, any.Path = nil, ""
		return r.HTTP() && t.Protocol == TCP && matches(&any, &t)
	}) >= 0
}

// isOn reports whether the mode reaches anything at all.
func (p Policy) isOn() bool {
	return p.Mode == config.NetworkOpen || p.Mode == config.NetworkAllow || p.Mode == config.NetworkAsk
}

// observed lets a refusal pass if the policy observes.
func (p Policy) observed(d Decision) Decision {
	if p.Observe && p.isOn() && d.Action != Allow {
		d.Action, d.Observed = Allow, true
	}
	return d
}

func (p Policy) decide(t Target, c *closed, now time.Time, matches func(*config.NetworkRule, *Target) bool) Decision {
	switch {
	case p.Off:
		return Decision{Action: Deny, Reason: "the sandbox has no network", Advice: homeSet + "network=outbound"}
	case !p.isOn():
		return Decision{Action: Deny, Reason: "the agent has no network", Advice: agentSet + "network=open"}
	}
	if i := p.find(now, true, func(r *config.NetworkRule) bool { return matches(r, &t) }); i >= 0 {
		return p.denied(i)
	}
	if p.Hosts != nil && !slices.ContainsFunc(p.Hosts, func(host string) bool { return t.Name != "" && matchesName(host, t.Name) }) {
		return Decision{Action: Deny, Reason: fmt.Sprintf("the plugin does not declare the host %s", t)}
	}
	if t.Protocol == UDP && t.Port == quicPort {
		if p.ByName() {
			return Decision{Action: Deny, Reason: "QUIC hides the name of the host; use TCP"}
		}
		tcp := t
		if tcp.Protocol = TCP; p.Opened(tcp, now) {
			return Decision{Action: Deny, Reason: HiddenByQUIC}
		}
	}
	if i := p.find(now, false, func(r *config.NetworkRule) bool { return matches(r, &t) && c.opens(r) }); i >= 0 {
		return Decision{Action: Allow, Rule: &p.Rules[i], Reason: fmt.Sprintf("the rule %q allows it", p.Rules[i])}
	}
	switch {
	case c != nil:
		return refusedRange(t, c)
	case t.Protocol == UDP && t.Port == quicPort && t.Name == "" && t.Addr.IsValid() && p.HasNames(now):
		return Decision{Action: Deny, Reason: "QUIC hides the name of the host, and rules deny some; use TCP"}
	case p.Mode == config.NetworkOpen && (t.Method == "" || !p.hasHTTP(t, now, false)):
		return Decision{Action: Allow, Reason: "the internet is open"}
	case p.Mode == config.NetworkAsk:
		return Decision{Action: Ask, Reason: fmt.Sprintf("no rule names %s", t.request()), Advice: adviceFor(t, c)}
	}
	return Decision{Action: Deny, Reason: fmt.Sprintf("no rule allows %s", t.request()), Advice: adviceFor(t, c)}
}

// find returns the index of the first rule that counts, or -1.
func (p Policy) find(now time.Time, deny bool, is func(*config.NetworkRule) bool) int {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Deny == deny && is(r) && !r.Expired(now) {
			return i
		}
	}
	return -1
}

const (
	agentSet = "osaurus-sandbox agent set NAME "
	homeSet  = "osaurus-sandbox config set "
)

func (p Policy) denied(i int) Decision {
	rule := &p.Rules[i]
	if i < p.Shared {
		return Decision{Action: Deny, Rule: rule, Reason: fmt.Sprintf("the rule %q for all agents denies it", rule), Advice: homeSet + "'networkRules-=" + rule.String() + "'"}
	}
	return Decision{Action: Deny, Rule: rule, Reason: fmt.Sprintf("the rule %q denies it", rule), Advice: agentSet + "'network.rules-=" + rule.String() + "'"}
}

func refusedRange(t Target, c *closed) Decision {
	reason := c.what + " are closed"
	if c.what == thisComputer {
		reason = c.what + " is closed"
	}
	if t.Name != "" && t.Name != config.Localhost {
		reason += fmt.Sprintf(", and %s is %s", t.Name, t.Addr)
	}
	return Decision{Action: Deny, Reason: reason, Advice: adviceFor(t, c)}
}

// adviceFor returns the command that adds the smallest rule for a flow, or "".
func adviceFor(t Target, c *closed) string {
	r, ok := ruleFor(t, c)
	if !ok {
		return ""
	}
	return agentSet + "'network.rules+=" + r.String() + "'"
}

// RuleFor returns the smallest rule that allows a flow, or false if there is none.
func (p Policy) RuleFor(t Target) (config.NetworkRule, bool) {
	t.Addr = plainAddr(t.Addr)
	return ruleFor(t, p.closedRange(t.Addr))
}

// ruleFor returns the smallest rule that allows a flow to an address in a closed range, or to
// another address if the range is nil.
func ruleFor(t Target, c *closed) (config.NetworkRule, bool) {
	r := config.NetworkRule{FirstPort: t.Port, LastPort: t.Port}
	if strings.Contains(t.Method, "|") || strings.HasSuffix(t.Path, "*") {
		return r, false // as a rule it would allow more than this request
	}
	if t.Protocol != ICMP {
		r.Protocol = string(t.Protocol)
	}
	if t.Method != "" {
		r.Methods, r.Path = []string{t.Method}, t.Path
	}
	switch {
	case t.Addr.IsLoopback():
		r.Host = config.Localhost
	case t.Name != "" && (c == nil || c.byName):
		r.Host = t.Name
	case t.Addr.IsValid():
		r.Prefix = netip.PrefixFrom(t.Addr, t.Addr.BitLen())
	}
	parsed, err := config.ParseNetworkRule(r.String()) // some paths cannot be written
	return parsed, err == nil
}

// isName reports whether a name is a host's, and in lower case without a trailing dot.
func isName(name string) bool {
	host, err := config.ParseHost(name)
	return err == nil && host == name
}

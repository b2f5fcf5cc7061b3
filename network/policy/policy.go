// Package policy decides what a subject may reach. It does no I/O.
package policy

import (
	"net/netip"
	"time"

	"osaurus-sandbox/config"
)

// Policy is what one subject may reach. The zero value reaches nothing.
type Policy struct {
	Mode config.NetworkMode
	// Observe records what would be refused, and lets it pass. It does not open Mode none.
	Observe bool
	// Rules of all agents come first, then the agent's. A deny wins over every allow.
	Rules []config.NetworkRule
	// Hosts, unless nil, are the only hosts that the subject reaches: those that a plugin
	// declares. The rest of the policy still applies to them.
	Hosts []string
}

// Protocol is what a flow speaks.
type Protocol string

const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
)

// Target is what a flow goes to. Name is empty for an address that the subject was not told for a
// name. Addr is invalid while only the name is known. Method and Path are those of an HTTP request
// that the gateway reads, or empty.
type Target struct {
	Protocol     Protocol
	Name         string // lower case, without a trailing dot
	Addr         netip.Addr
	Port         uint16
	Method, Path string
}

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

// Decide decides about a flow whose name and address are known.
func (p Policy) Decide(t Target, now time.Time) Decision { panic("todo") }

// Resolve decides whether a name may be resolved. Its target has no address, and port 0.
func (p Policy) Resolve(name string, now time.Time) Decision { panic("todo") }

// ByName reports whether names decide, so that SNI and Host have to agree with them.
func (p Policy) ByName() bool { panic("todo") }

// Opened reports whether a flow to a name has to be opened: a rule for it has methods or paths.
func (p Policy) Opened(t Target, now time.Time) bool { panic("todo") }

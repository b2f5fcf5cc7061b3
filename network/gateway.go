// Package network is the gateway: the other end of the VM's only NIC. It is a TCP/IP stack in this
// process that stands for the whole internet, and decides for each flow of each subject.
package network

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network/policy"
)

// Subject is who sends a packet. The zero value is the guest's own root.
type Subject struct {
	Agent  config.AgentID
	Plugin config.PluginID // empty for the agent's other programs
}

// Options configure a gateway.
type Options struct {
	// Policy returns a subject's policy. It is called for each flow and must be fast.
	Policy func(Subject) policy.Policy
	// Ask asks a person about a flow, and returns whether it is allowed. It returns when the
	// context ends. Concurrent calls for the same destination are the caller's to join.
	Ask func(context.Context, Subject, policy.Target) bool
	// Record is told of each flow when it is refused, and when it ends. It must not block.
	Record func(Flow)
	// Dialer reaches the outside. Nil is this computer's network, with its proxy settings.
	Dialer Dialer
	Log    *slog.Logger
}

// Dialer reaches the outside. Tests replace it.
type Dialer interface {
	// Dial connects to an address. Name is what the subject asked for, or empty; an HTTP proxy
	// of this computer is asked for the name.
	Dial(ctx context.Context, protocol policy.Protocol, name string, to netip.AddrPort) (net.Conn, error)
	// LookupNetIP resolves a name.
	LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error)
}

// Flow is a connection, or the datagrams between two ports, or a query.
type Flow struct {
	Subject        Subject
	Began, Ended   time.Time
	Target         policy.Target
	Decision       policy.Decision
	Sent, Received int64 // bytes, as the guest sees it
	Error          string // why the outside could not be reached
}

// Gateway is a running gateway. Its methods may be called from any goroutine.
type Gateway struct{}

// Open starts a gateway. The file is the NIC for vm.Config; the caller closes it when the machine
// has started.
func Open(o Options) (*Gateway, *os.File, error) { panic("todo") }

// Join returns the subject's address, the same one until Leave.
func (g *Gateway) Join(s Subject) (netip.Addr, error) { panic("todo") }

// Leave ends the flows of an agent and its plugins, and frees their addresses after a while.
func (g *Gateway) Leave(a config.AgentID) { panic("todo") }

// Recheck ends the flows of an agent that its policy no longer allows.
func (g *Gateway) Recheck(a config.AgentID) { panic("todo") }

// Dial connects to a port of a room. Only the gateway can do this; rooms do not reach each other.
func (g *Gateway) Dial(ctx context.Context, s Subject, port uint16) (net.Conn, error) { panic("todo") }

// Close ends all flows.
func (g *Gateway) Close() error { panic("todo") }

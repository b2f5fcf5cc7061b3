// Package network is the gateway: the other end of the VM's only NIC. It is a TCP/IP stack in this
// process that stands for the whole internet, and decides for each flow of each subject.
package network

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/link"
	"osaurus-sandbox/network/names"
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
	// Limits returns the limits of an agent. Join and Recheck apply them. Nil sets none.
	Limits func(config.AgentID) Limits
	// Ask asks a person about a flow, and returns whether it is allowed. It returns when the
	// context ends. Concurrent calls for the same destination are the caller's to join.
	Ask func(context.Context, Subject, policy.Target) bool
	// Record is called for each flow when it is refused or ends. It must not block.
	Record func(Flow)
	// Opens reports whether a subject's connections to a host are opened though no rule asks for
	// it, since secrets are bound to the host. For one that is opened it sets what
	// intercept.Serve needs and the gateway does not know: Authority, Credentials, Foreign,
	// Redact, Roots and Agent. It is called for each connection and must be fast. The
	// options are nil while it is not known whether the connection is made. With an empty host it
	// reports whether secrets are bound to any. Nil opens no TLS.
	Opens func(s Subject, host string, o *intercept.Options) bool
	// AgentName returns the name of an agent, for advice. Nil leaves NAME in its place.
	AgentName func(config.AgentID) string
	// Dialer reaches the outside. Nil is this computer's network, with its proxy settings.
	Dialer Dialer
	Log    *slog.Logger
	// Now is the clock by which told addresses are forgotten. Nil is time.Now.
	Now func() time.Time
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
	Sent, Received int64  // bytes, as the guest sees it
	Error          string // why the outside could not be reached
}

// Stats count what the gateway refuses to handle, since Open.
type Stats struct {
	Link    link.Counters
	Refused uint64 // flows, by a policy
	Limited uint64 // flows and queries, by a limit
	Flows   int    // running now
}

// Gateway is a running gateway. Its methods may be called from any goroutine.
type Gateway struct {
	options               Options
	policy                func(Subject) rules
	askTimeout            time.Duration
	dialer                Dialer
	names                 *names.Table
	dns                   *names.Server
	link                  *link.Endpoint
	stack                 *stack.Stack
	forwarder             *tcp.Forwarder
	members               *members
	buffers, datagrams    *buffers
	allFlows, allHalfOpen limit
	refused, limited      atomic.Uint64

	ctx     context.Context // ends with the gateway
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	flows    map[*flow]struct{}
	attempts map[stack.TransportEndpointID]*flow // whose SYN is not answered yet
}

// Open starts a gateway. The file is the NIC for vm.Config; the caller closes it when the machine
// has started.
func Open(o Options) (*Gateway, *os.File, error) {
	g := newGateway(o)
	wire, err := g.listen()
	return g, wire, err
}

func newGateway(o Options) *Gateway {
	g := &Gateway{
		options: o, dialer: o.Dialer, askTimeout: askTimeout,
		policy:  func(s Subject) rules { return o.Policy(s) },
		members: newMembers(),
		names:   names.NewTable(),
		buffers: newBuffers(copyBuffer), datagrams: newBuffers(maxDatagram),
		allFlows:    limit{max: maxAllFlows, reason: "too many open connections of all agents"},
		allHalfOpen: limit{max: maxAllHalfOpen, reason: "too many connections of all agents are being made"},
		flows:       map[*flow]struct{}{},
		attempts:    map[stack.TransportEndpointID]*flow{},
	}
	if o.Now != nil {
		g.names.Now = o.Now
	}
	if g.dialer == nil {
		g.dialer = newHostDialer()
	}
	g.dns = g.newNameServer()
	return g
}

// listen starts the gateway, and returns the guest's end of the wire.
func (g *Gateway) listen() (*os.File, error) {
	const op = "open the network gateway"
	near, far, err := link.Pair()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "", err)
	}
	g.link, err = link.New(near, link.Gateway(func(a netip.Addr) bool { return g.members.at(a) != nil }))
	if err != nil {
		_, _ = near.Close(), far.Close()
		return nil, fault.New(fault.Execution, op, "", err)
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.stack = newStack()
	g.forwarder = tcp.NewForwarder(g.stack, smallBuffer, 2*maxAllHalfOpen, g.connect)
	g.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, g.handleTCP)
	g.stack.SetTransportProtocolHandler(udp.ProtocolNumber, g.handleUDP)
	g.stack.SetTransportProtocolHandler(icmp.ProtocolNumber4, g.handleICMP)
	g.start(g.sweep)
	if err := configure(g.stack, g.link); err != nil {
		_, _ = g.Close(), far.Close()
		return nil, fault.New(fault.Execution, op, "", err)
	}
	return far, nil
}

// start runs a function that Close waits for. It reports false if the gateway is closed.
func (g *Gateway) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Join returns the subject's address, the same one until Leave.
func (g *Gateway) Join(s Subject) (netip.Addr, error) {
	m, isNew, err := g.members.join(s, time.Now())
	if err != nil {
		return netip.Addr{}, err
	}
	if isNew {
		g.names.Forget(m.addr) // answers that came after Leave
		if g.options.Limits != nil {
			m.set(g.options.Limits(s.Agent))
		}
	}
	return m.addr, nil
}

// Leave ends the flows of an agent and its plugins, and frees their addresses after a while.
func (g *Gateway) Leave(a config.AgentID) {
	left := g.members.leave(a, time.Now())
	g.endFlows(func(f *flow) bool { return slices.Contains(left, f.member) }, errLeft)
	for _, m := range left {
		g.names.Forget(m.addr)
	}
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{g.link.Counters(), g.refused.Load(), g.limited.Load(), len(g.flows)}
}

// Close ends all flows.
func (g *Gateway) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.mu.Unlock()
	g.cancel(errClosed)
	g.stack.Close() // ends handshakes
	g.running.Wait()
	g.link.Close()
	g.link.Wait() // the stack would wait for it with a lock that it needs
	g.stack.Wait()
	return nil
}

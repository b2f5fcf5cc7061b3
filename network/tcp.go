package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

// maxTried is how many addresses of a name are tried.
const maxTried = 4

// handleTCP sees each packet that belongs to no connection, on the link's reading goroutine. What is
// refused costs neither a goroutine nor memory. After false, the stack sends a reset.
func (g *Gateway) handleTCP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	flags := header.TCP(pkt.TransportHeader().Slice()).Flags()
	if flags&(header.TCPFlagSyn|header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) != header.TCPFlagSyn {
		return false
	}
	from, to := ends(id)
	m := g.members.at(from.Addr())
	if m == nil || g.attempt(id) != nil {
		return true // the room was just removed, or the client sends its SYN again
	}
	v, admitted, answered := g.admit(m, policy.TCP, to, pkt)
	if !admitted {
		return answered
	}
	f := g.begin(m, v, idleTimeout, []*limit{&m.flows, &g.allFlows}, &m.halfOpen, &g.allHalfOpen)
	if f == nil {
		return false
	}
	g.mu.Lock()
	g.attempts[id] = f
	g.mu.Unlock()
	if !g.forwarder.HandlePacket(id, pkt) {
		g.settle(id, f)
		f.end(errors.New("the packet was not valid"))
		return false
	}
	return true
}

// attempt returns the flow whose SYN is not answered yet, or nil.
func (g *Gateway) attempt(id stack.TransportEndpointID) *flow {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attempts[id]
}

// settle notes that an attempt has ended, with a connection or without.
func (g *Gateway) settle(id stack.TransportEndpointID, f *flow) {
	g.mu.Lock()
	delete(g.attempts, id)
	g.mu.Unlock()
	f.made()
}

// connect makes one connection. The outside is reached first, so that a client learns of a failure
// as it would without a gateway.
func (g *Gateway) connect(r *tcp.ForwarderRequest) {
	id := r.ID()
	f := g.attempt(id)
	c := &connection{gateway: g, flow: f, verdict: f.verdict}
	err := c.prepare()
	if err == nil {
		err = c.accept(r)
	} else {
		r.Complete(true)
	}
	g.settle(id, f)
	if err == nil {
		err = c.serve()
	}
	c.close()
	f.end(err)
}

// connection is a flow over TCP.
type connection struct {
	gateway *Gateway
	flow    *flow
	verdict verdict
	out     net.Conn // nil for those that are refused or answered here
	in      *guestConn
}

// prepare asks a person and dials. After an error the client gets a reset.
func (c *connection) prepare() error {
	v := &c.verdict
	if v.decision.Action == policy.Ask {
		c.gateway.ask(c.flow, v)
		if v.decision.Action == policy.Deny && !v.explained() {
			return errRefused
		}
	}
	if v.decision.Action == policy.Deny || v.target.Port == PortDNS {
		return nil
	}
	out, err := c.gateway.dial(c.flow, v.target)
	if errors.Is(err, errRefused) && v.explained() { // none of its addresses is allowed
		c.flow.update(func(r *Flow) {
			r.Decision.Action = policy.Deny
			v.target, v.decision = r.Target, r.Decision
		})
		return nil
	}
	c.out = out
	return err
}

// ask asks a person about a flow, and changes the verdict.
func (g *Gateway) ask(f *flow, v *verdict) {
	ctx, cancel := context.WithTimeout(f, g.askTimeout)
	defer cancel()
	allowed := g.options.Ask != nil && g.options.Ask(ctx, f.member.subject, v.target) && ctx.Err() == nil
	g.mu.Lock()
	defer g.mu.Unlock()
	if allowed {
		f.asked, v.decision.Action = true, policy.Allow
	} else {
		if d := judge(g.policyOf(f.member), v.target, time.Now()); d.Action == policy.Deny {
			v.decision = d // the answer may be a rule
		}
		v.decision.Action = policy.Deny
	}
	f.record.Decision = v.decision
}

// dial reaches the target of a flow. A target without an address is resolved, and each address is
// decided about: exactly one that is allowed is dialed. That of a flow's first packet is decided about
// again, since Recheck did not see the flow while it began.
func (g *Gateway) dial(f *flow, t policy.Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(f, dialTimeout)
	defer cancel()
	addrs := []netip.Addr{t.Addr}
	if !t.Addr.IsValid() {
		var err error
		if addrs, _, err = g.dialer.LookupNetIP(ctx, t.Name); errors.Is(err, names.ErrByProxy) {
			addrs = []netip.Addr{{}} // the proxy is asked for the name
		} else if err != nil {
			return nil, err
		}
	}
	p, last := g.policyOf(f.member), fmt.Errorf("%s has no address", t.Name)
	tried := 0
	for _, addr := range addrs {
		t.Addr = addr.Unmap()
		d := judge(p, t, f.record.Began)
		if d.Action == policy.Deny || d.Action == policy.Ask && !f.asked {
			f.update(func(r *Flow) { r.Target, r.Decision = t, d })
			last = errRefused
			continue
		}
		d.Action = policy.Allow
		if tried++; tried > maxTried {
			break
		}
		f.update(func(r *Flow) { r.Target, r.Decision = t, d })
		out, err := g.dialer.Dial(ctx, t.Protocol, t.Name, netip.AddrPortFrom(t.Addr, t.Port))
		if err == nil {
			return out, nil
		}
		last = err
	}
	return nil, last
}

// accept finishes the client's handshake.
func (c *connection) accept(r *tcp.ForwarderRequest) error {
	var queue waiter.Queue
	stop := c.gateway.limitHandshake(c.flow, r.ID())
	ep, err := r.CreateEndpoint(&queue)
	stop()
	if err != nil {
		r.Complete(true)
		return fmt.Errorf("the client did not finish the handshake: %s", err)
	}
	r.Complete(false)
	if n := c.gateway.allFlows.used.Load(); n > largeFlows {
		size := int64(smallBuffer)
		if n > mediumFlows {
			size = tinyBuffer
		}
		ep.SocketOptions().SetSendBufferSize(size, true)
		ep.SocketOptions().SetReceiveBufferSize(size, true)
	}
	c.in = &guestConn{gonet.NewTCPConn(&queue, ep), guestEnd{ep, &queue}}
	return nil
}

// limitHandshake ends a handshake when the flow or its time ends. The stack itself would wait for two
// minutes. The caller stops it when the handshake has ended.
func (g *Gateway) limitHandshake(f *flow, id stack.TransportEndpointID) (stop func()) {
	ctx, cancel := context.WithTimeout(f, handshakeTimeout)
	var done atomic.Bool
	unwatch := context.AfterFunc(ctx, func() {
		for !done.Load() { // the endpoint may not be there yet
			if ep := g.stack.FindTransportEndpoint(ipv4.ProtocolNumber, tcp.ProtocolNumber, id, nic); ep != nil {
				ep.Abort()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() {
		done.Store(true)
		unwatch()
		cancel()
	}
}

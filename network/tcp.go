package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"osaurus-sandbox/network/policy"
)

// maxTried is how many addresses of a name are tried.
const maxTried = 4

// attempt is a connection whose SYN is not answered yet.
type attempt struct {
	id      stack.TransportEndpointID
	flow    *flow
	verdict verdict
}

// handleTCP sees each packet that belongs to no connection, on the link's reading goroutine. What is
// refused costs neither a goroutine nor memory. After false, the stack sends a reset.
func (g *Gateway) handleTCP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	flags := header.TCP(pkt.TransportHeader().Slice()).Flags()
	if flags&(header.TCPFlagSyn|header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) != header.TCPFlagSyn {
		return false
	}
	from, to := ends(id)
	m := g.members.at(from.Addr())
	if m == nil {
		g.spoofed.Add(1)
		return true
	}
	if g.attempted(id) {
		return true // the client sends its SYN again
	}
	if !m.fresh.Allow() {
		g.exceed(m, policy.Target{Protocol: policy.TCP, Addr: to.Addr(), Port: to.Port()}, "too many new connections in a second")
		return false
	}
	var v verdict
	if to.Port() == portDNS {
		v.target = policy.Target{Protocol: policy.TCP, Addr: to.Addr(), Port: portDNS}
		v.decision, v.quiet = policy.Decision{Action: policy.Allow}, true
	} else {
		v = g.decide(m, policy.TCP, to)
	}
	if v.decision.Action == policy.Deny && !v.explained() {
		g.refuse(m, v)
		if v.prohibited {
			g.reject(pkt, stack.RejectIPv4WithICMPAdminProhibited)
		}
		return v.prohibited
	}
	a, reason := g.attempt(m, id, v)
	if a == nil {
		g.exceed(m, v.target, reason)
		return false
	}
	if !g.forwarder.HandlePacket(id, pkt) {
		g.settle(a)
		g.release(a, errors.New("the packet was not valid"))
		return false
	}
	return true
}

func (g *Gateway) attempted(id stack.TransportEndpointID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attempts[id] != nil
}

// attempt takes what a connection needs until it is made or refused, or says what there is too much of.
func (g *Gateway) attempt(m *member, id stack.TransportEndpointID, v verdict) (*attempt, string) {
	taken := []*limit{}
	for _, l := range []struct {
		*limit
		reason string
	}{
		{&m.flows, "too many open connections"},
		{&m.halfOpen, "too many connections are being made"},
		{&g.allFlows, "too many open connections of all agents"},
		{&g.allHalfOpen, "too many connections of all agents are being made"},
		{&m.held, "too many connections wait for a person's answer"},
	} {
		if l.limit == &m.held && v.decision.Action != policy.Ask {
			continue
		}
		if !l.take() {
			for _, t := range taken {
				t.give()
			}
			return nil, l.reason
		}
		taken = append(taken, l.limit)
	}
	f := g.begin(m, v, idleTimeout)
	if f == nil {
		for _, t := range taken {
			t.give()
		}
		return nil, errClosed.Error()
	}
	a := &attempt{id, f, v}
	g.mu.Lock()
	g.attempts[id] = a
	g.mu.Unlock()
	return a, ""
}

// settle gives back what an attempt needed beyond the flow.
func (g *Gateway) settle(a *attempt) {
	g.mu.Lock()
	delete(g.attempts, a.id)
	g.mu.Unlock()
	a.flow.member.halfOpen.give()
	g.allHalfOpen.give()
	if a.verdict.decision.Action == policy.Ask {
		a.flow.member.held.give()
	}
}

// release ends an attempt's flow.
func (g *Gateway) release(a *attempt, err error) {
	a.flow.end(err)
	a.flow.member.flows.give()
	g.allFlows.give()
}

// connect makes one connection. The outside is reached first, so that a client learns of a failure
// as it would without a gateway.
func (g *Gateway) connect(r *tcp.ForwarderRequest) {
	g.mu.Lock()
	a := g.attempts[r.ID()]
	g.mu.Unlock()
	c := &connection{gateway: g, flow: a.flow, verdict: a.verdict}
	err := c.prepare()
	if err == nil {
		err = c.accept(r)
	} else {
		r.Complete(true)
	}
	g.settle(a)
	if err == nil {
		err = c.serve()
	}
	c.close()
	g.release(a, err)
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
	if v.decision.Action == policy.Deny || v.target.Port == portDNS {
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
		if addrs, _, err = g.dialer.LookupNetIP(ctx, t.Name); err != nil {
			return nil, err
		}
	}
	p, last := g.policy(f.member.subject), fmt.Errorf("%s has no address", t.Name)
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
	c.in = &guestConn{TCPConn: gonet.NewTCPConn(&queue, ep), endpoint: ep, queue: &queue}
	return nil
}

// limitHandshake ends a handshake when the flow or its time ends. The stack itself would wait for two
// minutes. The caller stops it when the handshake has ended.
func (g *Gateway) limitHandshake(f *flow, id stack.TransportEndpointID) (stop func()) {
	ctx, cancel := context.WithTimeout(f, handshakeTimeout)
	done := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		for { // the endpoint may not be there yet
			select {
			case <-done:
				return
			default:
			}
			if ep := g.stack.FindTransportEndpoint(ipv4.ProtocolNumber, tcp.ProtocolNumber, id, nic); ep != nil {
				ep.Abort()
			}
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() {
		close(done)
		unwatch()
		cancel()
	}
}

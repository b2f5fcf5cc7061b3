package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/policy"
)

// handleICMP sees ICMP packets. The stack itself answers those for the gateway's address.
func (g *Gateway) handleICMP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	ip := header.IPv4(pkt.NetworkHeader().Slice())
	from, to := fromStack(ip.SourceAddress()), fromStack(ip.DestinationAddress())
	m := g.members.at(from)
	if m == nil {
		g.spoofed.Add(1)
		return true
	}
	if to == subnet.Gateway() {
		return false
	}
	if header.ICMPv4(pkt.TransportHeader().Slice()).Type() != header.ICMPv4Echo {
		return true
	}
	v := verdict{target: policy.Target{Protocol: policy.ICMP, Addr: to}}
	if !m.fresh.Allow() || !m.pings.take() {
		g.exceed(m, v.target, "too many pings")
		return true
	}
	v = g.decide(m, policy.ICMP, netip.AddrPortFrom(to, 0))
	if v.decision.Action != policy.Allow { // nobody is asked about a ping
		m.pings.give()
		v.decision.Action = policy.Deny
		g.refuse(m, v)
		g.reject(pkt, stack.RejectIPv4WithICMPAdminProhibited)
		return true
	}
	f := g.begin(m, v, datagramTimeout)
	if f == nil {
		m.pings.give()
		return true
	}
	payload := stack.PayloadSince(pkt.TransportHeader())
	message := slices.Clone(payload.AsSlice())
	payload.Release()
	original := pkt.Clone()
	go func() {
		err := g.ping(f, v, from, to, message)
		if err != nil && f.Err() == nil {
			g.reject(original, stack.RejectIPv4WithICMPHostUnreachable)
		}
		original.DecRef()
		f.end(err)
		m.pings.give()
	}()
	return true
}

// ping passes an echo request on, and its reply back.
func (g *Gateway) ping(f *flow, v verdict, from, to netip.Addr, request header.ICMPv4) error {
	out, err := g.dial(f, v.target)
	if err != nil {
		return err
	}
	defer out.Close()
	defer context.AfterFunc(f, func() { _ = out.Close() })()
	if err := out.SetDeadline(time.Now().Add(pingTimeout)); err != nil {
		return err
	}
	n, err := out.Write(request)
	if err != nil {
		return err
	}
	_ = f.pass(&f.sent, n)
	reply := make(header.ICMPv4, len(request)+1)
	if n, err = out.Read(reply); err != nil {
		return err
	}
	reply = reply[:n]
	if n < header.ICMPv4MinimumSize || n > len(request) || reply.Type() != header.ICMPv4EchoReply {
		return fmt.Errorf("the answer is no echo reply")
	}
	_ = f.pass(&f.received, n)
	reply.SetIdent(request.Ident())
	reply.SetSequence(request.Sequence())
	reply.SetChecksum(0)
	reply.SetChecksum(^checksum.Checksum(reply, 0))
	g.send(to, from, icmp.ProtocolNumber4, reply)
	return nil
}

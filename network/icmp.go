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
	if m != nil && to == subnet.Gateway() {
		return false
	}
	if m == nil || header.ICMPv4(pkt.TransportHeader().Slice()).Type() != header.ICMPv4Echo {
		return true
	}
	v, admitted, _ := g.admit(m, policy.ICMP, netip.AddrPortFrom(to, 0), pkt)
	if !admitted {
		return true
	}
	f := g.begin(m, v, datagramTimeout, []*limit{&m.pings})
	if f == nil {
		return true
	}
	payload := stack.PayloadSince(pkt.TransportHeader())
	message := slices.Clone(payload.AsSlice())
	payload.Release()
	original := pkt.Clone()
	go func() {
		err := g.ping(f, from, to, message)
		if err != nil && f.Err() == nil {
			g.reject(original, stack.RejectIPv4WithICMPHostUnreachable)
		}
		original.DecRef()
		f.end(err)
	}()
	return true
}

// ping passes an echo request on, and its reply back.
func (g *Gateway) ping(f *flow, from, to netip.Addr, request header.ICMPv4) error {
	out, err := g.dial(f, f.verdict.target)
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
	f.count(&f.sent, n)
	reply := make(header.ICMPv4, len(request)+1)
	if n, err = out.Read(reply); err != nil {
		return err
	}
	reply = reply[:n]
	if n < header.ICMPv4MinimumSize || n > len(request) || reply.Type() != header.ICMPv4EchoReply {
		return fmt.Errorf("the answer is not an echo reply")
	}
	f.count(&f.received, n)
	reply.SetIdent(request.Ident())
	reply.SetSequence(request.Sequence())
	reply.SetChecksum(0)
	reply.SetChecksum(^checksum.Checksum(reply, 0))
	g.send(to, from, icmp.ProtocolNumber4, reply)
	return nil
}

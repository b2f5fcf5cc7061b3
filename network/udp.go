package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

// handleUDP sees each datagram that belongs to no flow. After false, the stack answers "port
// unreachable", which clients report at once.
func (g *Gateway) handleUDP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	from, to := ends(id)
	m := g.members.at(from.Addr())
	if m == nil {
		return true // the room was just removed
	}
	if to.Port() == PortDNS {
		return g.query(m, from, to, pkt)
	}
	v, admitted, answered := g.admit(m, policy.UDP, to, pkt)
	if !admitted {
		return answered
	}
	f := g.begin(m, v, datagramTimeout, []*limit{&m.datagrams})
	if f == nil {
		return false
	}
	var queue waiter.Queue
	ep, err := udp.NewForwarderRequest(g.stack, id, pkt).CreateEndpoint(&queue)
	if err != nil {
		f.end(errors.New(err.String()))
		return true
	}
	ep.SocketOptions().SetReceiveBufferSize(datagramBuffer, false)
	// What comes while a person is asked is queued.
	go func() {
		f.end(g.relayDatagrams(f, &guestDatagrams{gonet.NewUDPConn(&queue, ep), guestEnd{ep, &queue}}))
	}()
	return true
}

// guestDatagrams is the guest's end of a UDP flow.
type guestDatagrams struct {
	*gonet.UDPConn
	guestEnd
}

// relayDatagrams passes datagrams on until none have come for a while.
func (g *Gateway) relayDatagrams(f *flow, in *guestDatagrams) error {
	v := f.verdict
	closeIn := context.AfterFunc(f, func() { _ = in.Close() })
	defer func() {
		if closeIn() {
			_ = in.Close()
		}
	}()
	if v.decision.Action == policy.Ask {
		g.ask(f, &v)
		f.made()
		if v.decision.Action == policy.Deny {
			return errRefused
		}
	}
	out, err := g.dial(f, v.target)
	if err != nil {
		return err
	}
	host := newHostConn(out)
	defer context.AfterFunc(f, func() { _ = host.Close() })()
	defer host.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		f.copyDatagrams(in, host, &f.received)
		f.cancel(nil)
	}()
	f.copyDatagrams(host, in, &f.sent)
	f.cancel(nil)
	<-back
	if cause := context.Cause(f); !errors.Is(cause, context.Canceled) && !errors.Is(cause, errIdle) {
		return cause
	}
	return nil
}

type readable interface {
	io.Reader
	waitReadable()
}

// copyDatagrams copies until src fails. A datagram that cannot be sent is lost, as anywhere.
func (f *flow) copyDatagrams(dst io.Writer, src readable, count *atomic.Int64) {
	for f.Err() == nil {
		src.waitReadable()
		buf := f.gateway.datagrams.get()
		n, err := src.Read(*buf)
		if err == nil {
			if _, err := dst.Write((*buf)[:n]); err == nil {
				f.count(count, n)
			}
		}
		f.gateway.datagrams.put(buf)
		if err != nil && f.failed(err) {
			return
		}
	}
}

// failed reports whether an error ends a UDP flow. "Connection refused" is an ICMP message for an
// earlier datagram, after which the port may open.
func (f *flow) failed(err error) bool {
	var refused net.Error
	if errors.As(err, &refused) && !refused.Timeout() && !errors.Is(err, net.ErrClosed) && f.Err() == nil {
		return f.received.Load() == 0
	}
	return true
}

// query answers a DNS query, whatever server it was meant for.
func (g *Gateway) query(m *member, from, to netip.AddrPort, pkt *stack.PacketBuffer) bool {
	size := pkt.Data().Size()
	if size > names.MaxQuery || take(&m.queries) != "" {
		g.limited.Add(1)
		return true // a resolver asks again
	}
	message := pkt.Data().AsRange().ToSlice()
	started := g.start(func() {
		defer give(&m.queries)
		ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
		defer cancel()
		if reply := g.dns.Answer(ctx, m.addr, message, false); reply != nil && g.members.at(m.addr) == m {
			g.sendDatagram(to, from, reply)
		}
	})
	if !started {
		give(&m.queries)
	}
	return true
}

// sendDatagram sends a datagram to the guest without a socket.
func (g *Gateway) sendDatagram(from, to netip.AddrPort, payload []byte) {
	length := uint16(header.UDPMinimumSize + len(payload))
	packet := append(make(header.UDP, header.UDPMinimumSize, length), payload...)
	packet.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: length})
	sum := header.PseudoHeaderChecksum(udp.ProtocolNumber, toStack(from.Addr()), toStack(to.Addr()), length)
	packet.SetChecksum(^packet.CalculateChecksum(checksum.Checksum(payload, sum)))
	g.send(from.Addr(), to.Addr(), udp.ProtocolNumber, packet)
}

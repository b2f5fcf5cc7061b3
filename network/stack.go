package network

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"osaurus-sandbox/internal/subnet"
)

const (
	nic = 1
	// timeWait is short since the wire neither delays nor duplicates, and since an endpoint in
	// this state takes some 8 KiB.
	timeWait = time.Second
	// finWait is how long a guest may take to end a flow that the gateway has closed.
	finWait = 10 * time.Second
	// datagramBuffer is what a UDP flow queues for a relay that is slow.
	datagramBuffer = 64 << 10
)

func newStack() *stack.Stack {
	return stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
}

// configure sets the stack's limits, and has it answer for all addresses on a link.
func configure(s *stack.Stack, link stack.LinkEndpoint) error {
	sack, moderate, delay := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true), tcpip.TCPDelayEnabled(false)
	wait, linger := tcpip.TCPTimeWaitTimeoutOption(timeWait), tcpip.TCPLingerTimeoutOption(finWait)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: smallBuffer, Max: largeBuffer}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: smallBuffer, Max: largeBuffer}
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &delay, &wait, &linger, &receive, &send} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %v", o, err)
		}
	}
	// Each message answers a packet of the guest, and what one room gets must not depend on others.
	s.SetICMPLimit(rate.Inf)
	if err := s.CreateNIC(nic, link); err != nil {
		return fmt.Errorf("create the network interface: %v", err)
	}
	self := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: toStack(subnet.Gateway()).WithPrefix()}
	if err := s.AddProtocolAddress(nic, self, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("set the address: %v", err)
	}
	if err := s.SetPromiscuousMode(nic, true); err != nil { // answer for any address
		return fmt.Errorf("set promiscuous mode: %v", err)
	}
	if err := s.SetSpoofing(nic, true); err != nil { // and from any address
		return fmt.Errorf("set spoofing: %v", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return nil
}

// reject answers a packet with an ICMP error.
func (g *Gateway) reject(pkt *stack.PacketBuffer, reason stack.RejectIPv4WithICMPType) {
	if p, ok := g.stack.NetworkProtocolInstance(ipv4.ProtocolNumber).(stack.RejectIPv4WithHandler); ok {
		_ = p.SendRejectionError(pkt, reason, true)
	}
}

// send sends a packet to the guest from any address, without an endpoint.
func (g *Gateway) send(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) {
	route, err := g.stack.FindRoute(nic, toStack(from), toStack(to), ipv4.ProtocolNumber, false)
	if err != nil {
		return
	}
	defer route.Release()
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: int(route.MaxHeaderLength()), Payload: buffer.MakeWithData(payload),
	})
	defer pkt.DecRef()
	_ = route.WritePacket(stack.NetworkHeaderParams{Protocol: protocol, TTL: route.DefaultTTL()}, pkt)
}

func toStack(a netip.Addr) tcpip.Address   { return tcpip.AddrFrom4(a.As4()) }
func fromStack(a tcpip.Address) netip.Addr { return netip.AddrFrom4(a.As4()) }

// ends returns the two ends of a flow that a subject begins.
func ends(id stack.TransportEndpointID) (from, to netip.AddrPort) {
	return netip.AddrPortFrom(fromStack(id.RemoteAddress), id.RemotePort), netip.AddrPortFrom(fromStack(id.LocalAddress), id.LocalPort)
}

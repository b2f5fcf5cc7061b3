// Package networktest has a guest and an internet for tests of the gateway, both in this process.
package networktest

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"osaurus-sandbox/network/link"
)

const nic = 1

// Guest is a TCP/IP stack at the guest's end of the wire. It stands for all rooms.
type Guest struct {
	Stack *stack.Stack
	Wire  *os.File // for frames of the test's own
}

// NewGuest connects a guest to the file that network.Open returned, which it takes over. The guest
// ends with the test, or when it is closed.
func NewGuest(t testing.TB, wire *os.File) *Guest {
	t.Helper()
	endpoint, err := link.New(wire, link.Guest())
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	if err := s.CreateNIC(nic, endpoint); err != nil {
		t.Fatal(err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	g := &Guest{Stack: s, Wire: wire}
	t.Cleanup(g.Close)
	return g
}

// Close ends the guest.
func (g *Guest) Close() {
	_ = g.Wire.Close()
	g.Stack.Destroy()
}

// Add gives the guest an address.
func (g *Guest) Add(t testing.TB, a netip.Addr) {
	t.Helper()
	if err := g.Stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(a.As4()).WithPrefix(),
	}, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
}

// Dial connects by TCP from one of the guest's addresses.
func (g *Guest) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (*gonet.TCPConn, error) {
	return gonet.DialTCPWithBind(ctx, g.Stack, full(netip.AddrPortFrom(from, 0)), full(to), ipv4.ProtocolNumber)
}

// DialUDP returns a connected UDP socket.
func (g *Guest) DialUDP(from netip.Addr, to netip.AddrPort) (*gonet.UDPConn, error) {
	near, far := full(netip.AddrPortFrom(from, 0)), full(to)
	return gonet.DialUDP(g.Stack, &near, &far, ipv4.ProtocolNumber)
}

// Listen accepts TCP connections.
func (g *Guest) Listen(at netip.AddrPort) (net.Listener, error) {
	return gonet.ListenTCP(g.Stack, full(at), ipv4.ProtocolNumber)
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

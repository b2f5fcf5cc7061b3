// Package networktest has a guest and an internet for tests of the gateway, both in this process.
package networktest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"osaurus-sandbox/network/link"
)

const nic = 1

// Guest is a TCP/IP stack at the guest's end of the wire. It stands for all rooms.
type Guest struct {
	Stack *stack.Stack
	Wire  *os.File // for frames of the test's own
	link  *link.Endpoint
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
	g := &Guest{s, wire, endpoint}
	t.Cleanup(g.Close)
	return g
}

// Close ends the guest.
func (g *Guest) Close() {
	g.link.Close()
	g.link.Wait() // the stack would wait for it with a lock that it needs
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

// Remove takes an address from the guest again.
func (g *Guest) Remove(a netip.Addr) error {
	if err := g.Stack.RemoveAddress(nic, tcpip.AddrFrom4(a.As4())); err != nil {
		return errors.New(err.String())
	}
	return nil
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

// pingTimeout is how long Ping waits.
const pingTimeout = time.Minute

// Ping sends an echo request, and returns the payload of the reply.
func (g *Guest) Ping(from, to netip.Addr, payload string) (string, error) {
	var queue waiter.Queue
	ep, err := g.Stack.NewEndpoint(icmp.ProtocolNumber4, ipv4.ProtocolNumber, &queue)
	if err != nil {
		return "", errors.New(err.String())
	}
	defer ep.Close()
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	queue.EventRegister(&entry)
	defer queue.EventUnregister(&entry)
	if err := ep.Bind(full(netip.AddrPortFrom(from, 0))); err != nil {
		return "", errors.New(err.String())
	}
	if err := ep.Connect(full(netip.AddrPortFrom(to, 0))); err != nil {
		return "", errors.New(err.String())
	}
	request := append(make(header.ICMPv4, header.ICMPv4MinimumSize), payload...)
	request.SetType(header.ICMPv4Echo)
	if _, err := ep.Write(bytes.NewReader(request), tcpip.WriteOptions{}); err != nil {
		return "", errors.New(err.String())
	}
	select {
	case <-ready:
	case <-time.After(pingTimeout):
		return "", os.ErrDeadlineExceeded
	}
	var reply bytes.Buffer
	if _, err := ep.Read(&reply, tcpip.ReadOptions{}); err != nil {
		return "", errors.New(err.String())
	}
	return string(reply.Bytes()[header.ICMPv4MinimumSize:]), nil
}

// Listen accepts TCP connections.
func (g *Guest) Listen(at netip.AddrPort) (net.Listener, error) {
	return gonet.ListenTCP(g.Stack, full(at), ipv4.ProtocolNumber)
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

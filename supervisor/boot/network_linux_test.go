package boot_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/boot"
)

// greeterName is a server behind the gateway.
const greeterName = "hello.example.org"

func greeterAt() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{93, 184, 215, 14}), 80)
}

// outside is an internet of the tests, and this computer's loopback.
type outside struct{ *networktest.Internet }

// Dial implements network.Dialer.
func (o outside) Dial(ctx context.Context, protocol policy.Protocol, name string, to netip.AddrPort) (net.Conn, error) {
	if to.Addr().IsLoopback() {
		var d net.Dialer
		return d.DialContext(ctx, string(protocol), to.String())
	}
	return o.Internet.Dial(ctx, protocol, name, to)
}

// newNetwork configures a gateway to a greeter and to this computer.
func newNetwork(t testing.TB) *network.Options {
	t.Helper()
	internet := networktest.NewInternet()
	internet.Name(greeterName, greeterAt().Addr())
	internet.Serve(t, greeterAt(), func(c net.Conn) { fmt.Fprintln(c, "hello") })
	o := boot.OpenNetwork(config.NetworkRule{Host: "localhost"})
	o.Dialer = outside{internet}
	return o
}

// join returns the address of a user's room.
func (h *home) join(t testing.TB, user config.LinuxUser) netip.Addr {
	t.Helper()
	a, err := h.guest.Gateway().Join(network.Subject{Agent: config.AgentID(user)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/subnet"
)

// A cable connects a room to the guest: a pair of veth devices. The guest's end of every cable has
// the same address, and the room's end those that the host gave the room.
//
// Three things keep a room to its addresses. Its programs, even root, can neither open raw sockets
// nor configure devices. The guest routes each address to one cable, and the strict filter drops a
// packet whose source is not routed to the cable that it comes from. The firewall forwards packets
// between cables and the gateway only.
const (
	cablePrefix = "room" // followed by the user's id, or p and a number; the firewall matches it

	routerMAC = "52:54:00:6f:73:63" // of the guest's ends
	roomMAC   = "52:54:00:6f:73:64" // of the rooms' ends
)

// RoomCable returns the name of the guest's end of a room's cable.
func RoomCable(uid uint32) string { return cablePrefix + strconv.FormatUint(uint64(uid), 10) }

// PluginCable returns the name of the guest's end of the cable of a plugin with an address.
func PluginCable(address netip.Addr) string {
	b := address.As4()
	return fmt.Sprintf("%sp%d", cablePrefix, uint(b[2])<<8|uint(b[3]))
}

// NewNamespace returns a network namespace with a loopback. It lasts as long as the file is open or
// a process is in it.
func NewNamespace() (*os.File, error) {
	var made *os.File
	err := process.OnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare the network: %w", err)
		}
		if err := Loopback(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
		made, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return made, err
}

// Connect lays a cable to a network namespace. Its address is the only one that programs there can
// use.
func Connect(cable string, address netip.Addr, namespace *os.File) error {
	if err := firewall(); err != nil {
		return fmt.Errorf("load the firewall rules: %w", err)
	}
	if err := layCable(cable, namespace); err != nil {
		return fmt.Errorf("create cable: %w", err)
	}
	if err := route(cable, address); err != nil {
		return fmt.Errorf("set up the guest's end: %w", err)
	}
	inside := func() error { return attach(device, subnet.RoomRouter(), routerMAC, address) }
	if err := process.InNamespaces(int(namespace.Fd()), unix.CLONE_NEWNET, inside); err != nil {
		return fmt.Errorf("set up the room's end: %w", err)
	}
	return nil
}

// route routes an address to the guest's end of a cable.
func route(cable string, address netip.Addr) error {
	if err := withoutIPv6(cable); err != nil {
		return err
	}
	return configure(cable, func(index uint32) []message {
		router := subnet.RoomRouter()
		return []message{
			addAddress(index, router, router), setUp(index, subnet.MTU), addNeighbour(index, address, roomMAC),
			addRoute(index, netip.PrefixFrom(address, address.BitLen()), netip.Addr{}, router),
		}
	})
}

// Disconnect removes a cable, if there is one.
func Disconnect(cable string) error {
	m := linkMessage(unix.RTM_DELLINK, 0, 0, 0)
	m.text(unix.IFLA_IFNAME, cable)
	if err := send(unix.NETLINK_ROUTE, m); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove cable %s: %w", cable, err)
	}
	return nil
}

// layCable creates a veth pair, with one end here and one in a network namespace.
func layCable(name string, namespace *os.File) error {
	m := linkMessage(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, 0)
	m.end(name, routerMAC)
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, "veth")
		m.nest(unix.IFLA_INFO_DATA, func() {
			const peer = 1 // VETH_INFO_PEER
			m.nest(peer, func() {
				m.body = append(m.body, make([]byte, unix.SizeofIfInfomsg)...)
				m.end(device, roomMAC)
				m.number(unix.IFLA_NET_NS_FD, uint32(namespace.Fd()))
			})
		})
	})
	return send(unix.NETLINK_ROUTE, m)
}

// end appends what one end of a cable is.
func (m *message) end(name, mac string) {
	m.text(unix.IFLA_IFNAME, name)
	m.attribute(unix.IFLA_ADDRESS, hardware(mac))
}

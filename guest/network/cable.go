//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
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
	cablePrefix = "room" // followed by the user's id; the firewall matches it

	routerMAC = "52:54:00:6f:73:63" // of the guest's ends
	roomMAC   = "52:54:00:6f:73:64" // of the rooms' ends
)

// Cable returns the name of the guest's end of a room's cable.
func Cable(uid uint32) string { return cablePrefix + strconv.FormatUint(uint64(uid), 10) }

// Connect lays the cable of a room, whose network namespace is that of a process. Addresses are the
// only ones that the room can use, and the first is that of programs that do not choose one.
func Connect(uid uint32, addresses []netip.Addr, pid, pidfd int) error {
	if err := firewall(); err != nil {
		return fmt.Errorf("load the firewall rules: %w", err)
	}
	if err := layCable(Cable(uid), pid); err != nil {
		return fmt.Errorf("create cable: %w", err)
	}
	if err := routeRoom(Cable(uid), addresses); err != nil {
		return fmt.Errorf("set up the guest's end: %w", err)
	}
	inside := func() error { return attach(device, subnet.RoomRouter(), routerMAC, addresses...) }
	if err := process.InNamespaces(pidfd, unix.CLONE_NEWNET, inside); err != nil {
		return fmt.Errorf("set up the room's end: %w", err)
	}
	return nil
}

// routeRoom routes a room's addresses to the guest's end of its cable.
func routeRoom(cable string, addresses []netip.Addr) error {
	if err := withoutIPv6(cable); err != nil {
		return err
	}
	return configure(cable, func(n netlink, index uint32) error {
		router := subnet.RoomRouter()
		list := []message{addAddress(index, router, router), setUp(index, subnet.MTU)}
		for _, a := range addresses {
			list = append(list, addNeighbour(index, a, roomMAC), addRoute(index, netip.PrefixFrom(a, a.BitLen()), netip.Addr{}, router))
		}
		return n.do(list...)
	})
}

// Disconnect removes the cable of a room, if there is one.
func Disconnect(uid uint32) error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	m := linkMessage(unix.RTM_DELLINK, 0, 0, 0)
	m.text(unix.IFLA_IFNAME, Cable(uid))
	if err := n.do(m); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove cable %s: %w", Cable(uid), err)
	}
	return nil
}

// layCable creates a veth pair, with one end here and one in the network namespace of a process.
func layCable(name string, pid int) error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	m := linkMessage(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, 0)
	m.end(name, routerMAC)
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, "veth")
		m.nest(unix.IFLA_INFO_DATA, func() {
			const peer = 1 // VETH_INFO_PEER
			m.nest(peer, func() {
				m.body = append(m.body, make([]byte, unix.SizeofIfInfomsg)...)
				m.end(device, roomMAC)
				m.number(unix.IFLA_NET_NS_PID, uint32(pid))
			})
		})
	})
	return n.do(m)
}

// end appends what one end of a cable is.
func (m *message) end(name, mac string) {
	m.text(unix.IFLA_IFNAME, name)
	m.attribute(unix.IFLA_ADDRESS, hardware(mac))
}

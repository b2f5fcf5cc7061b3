//go:build linux

// Package network connects the guest to the gateway, and rooms to the guest.
package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/subnet"
)

// device is the name of the guest's NIC, and of the room's end of a cable.
const device = "eth0"

// Loopback sets the loopback interface up.
func Loopback() error {
	return configure("lo", func(index uint32) []message { return []message{setUp(index, 0)} })
}

// Configure connects the guest to the gateway.
func Configure() error {
	// With the strict filter, a packet's source must be routed to the device that it comes from.
	if err := setting("ipv4/conf/all/rp_filter", 1); err != nil {
		return fmt.Errorf("filter sources: %w", err)
	}
	if err := setting("ipv4/ip_forward", 1); err != nil {
		return fmt.Errorf("forward packets: %w", err)
	}
	// Every other address is behind the gateway, so the gateway is the only neighbour.
	if err := attach(device, subnet.Gateway(), subnet.GatewayMAC, subnet.Guest().Addr()); err != nil {
		return fmt.Errorf("set up %s: %w", device, err)
	}
	return nil
}

// attach gives a device of the thread's network namespace its address, and a default route by a
// neighbour.
func attach(name string, gateway netip.Addr, mac string, own netip.Addr) error {
	if err := withoutIPv6(name); err != nil {
		return err
	}
	return configure(name, func(index uint32) []message {
		return []message{
			addAddress(index, own, gateway), setUp(index, subnet.MTU), addNeighbour(index, gateway, mac),
			addRoute(index, netip.PrefixFrom(netip.IPv4Unspecified(), 0), gateway, own),
		}
	})
}

// withoutIPv6 disables IPv6 on a device of the thread's network namespace, before the device is up.
// There is no IPv6 route to the outside, and programs would wait for one.
func withoutIPv6(name string) error {
	err := setting("ipv6/conf/"+name+"/disable_ipv6", 1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	return err
}

// setting writes a setting of the thread's network namespace.
func setting(name string, value int) error {
	return os.WriteFile("/proc/sys/net/"+name, []byte(strconv.Itoa(value)), 0)
}

// configure sends messages about a device, which f makes for its index.
func configure(name string, f func(index uint32) []message) error {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	return send(unix.NETLINK_ROUTE, f(uint32(ifc.Index))...)
}

// linkMessage returns a message with struct ifinfomsg.
func linkMessage(kind, flags uint16, index, up uint32) message {
	m := message{kind: kind, flags: flags | unix.NLM_F_ACK, body: make([]byte, unix.SizeofIfInfomsg)}
	native.PutUint32(m.body[4:], index)
	native.PutUint32(m.body[8:], up)  // flags
	native.PutUint32(m.body[12:], up) // mask of flags to change
	return m
}

// setUp sets a device up. An MTU of 0 stays as it is.
func setUp(index, mtu uint32) message {
	m := linkMessage(unix.RTM_NEWLINK, 0, index, unix.IFF_UP)
	if mtu != 0 {
		m.number(unix.IFLA_MTU, mtu)
	}
	return m
}

// add is how addresses, neighbours and routes are added.
const add = unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE

// addAddress gives a device an address. Only peer is on the device's link.
func addAddress(index uint32, own, peer netip.Addr) message {
	m := message{kind: unix.RTM_NEWADDR, flags: add, body: []byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE}}
	m.body = native.AppendUint32(m.body, index)
	m.attribute(unix.IFA_LOCAL, own.AsSlice())
	m.attribute(unix.IFA_ADDRESS, peer.AsSlice())
	return m
}

// addNeighbour says which MAC an address has, for good: the kernel never asks by ARP.
func addNeighbour(index uint32, at netip.Addr, mac string) message {
	m := message{kind: unix.RTM_NEWNEIGH, flags: add, body: []byte{unix.AF_INET, 0, 0, 0}} // struct ndmsg
	m.body = native.AppendUint32(m.body, index)
	m.body = append(native.AppendUint16(m.body, unix.NUD_PERMANENT), 0, unix.RTN_UNICAST)
	m.attribute(unix.NDA_DST, at.AsSlice())
	m.attribute(unix.NDA_LLADDR, hardware(mac))
	return m
}

// hardware parses a MAC of a constant.
func hardware(mac string) net.HardwareAddr {
	a, err := net.ParseMAC(mac)
	if err != nil {
		panic(err)
	}
	return a
}

// addRoute routes a network through a device, by a gateway and from an address unless these are
// invalid.
func addRoute(index uint32, to netip.Prefix, by, from netip.Addr) message {
	scope := byte(unix.RT_SCOPE_LINK)
	if by.IsValid() {
		scope = unix.RT_SCOPE_UNIVERSE
	}
	m := message{kind: unix.RTM_NEWROUTE, flags: add, body: []byte{
		unix.AF_INET, byte(to.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, scope, unix.RTN_UNICAST, 0, 0, 0, 0,
	}}
	for _, a := range []struct {
		kind  uint16
		value netip.Addr
	}{{unix.RTA_DST, to.Addr()}, {unix.RTA_GATEWAY, by}, {unix.RTA_PREFSRC, from}} {
		if a.value.IsValid() && !a.value.IsUnspecified() {
			m.attribute(a.kind, a.value.AsSlice())
		}
	}
	m.number(unix.RTA_OIF, index)
	return m
}

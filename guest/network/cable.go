//go:build linux

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

	"osaurus-sandbox/guest/process"
)

// Every room has an address in 198.18.0.0/15, a range that is not routed on the internet (RFC
// 2544), and a cable to the guest: a pair of veth devices. The guest's end of every cable has the
// same address. Rooms are not connected to each other. The address of a room decides whether it may
// reach the host: see fence.
const (
	cablePrefix = "room" // followed by the slot; the firewall matches it
	insideName  = "eth0"
	// MaxRooms is limited by the bits of an address.
	MaxRooms = 1 << 12
)

var _ [1<<15 - MaxRooms]struct{} // one bit of an address is for host services

// Cable returns the name of the guest's end of a cable.
func Cable(slot int) string { return cablePrefix + strconv.Itoa(slot) }

// gateway is the guest's end of each cable.
func gateway() [4]byte { return [4]byte{198, 18, 0, 1} }

// address returns the address of a room. Unless free, it is one of the fenced addresses.
func address(slot int, free bool) [4]byte {
	if free {
		return [4]byte{198, 18, 1<<7 | byte(slot>>8), byte(slot)}
	}
	return [4]byte{198, 19, byte(slot >> 8), byte(slot)}
}

// fenced returns the network of rooms that may not reach the host.
func fenced() ([4]byte, byte) { return [4]byte{198, 19, 0, 0}, 16 }

// Connect connects the network namespace of a process to the guest's network, with the cable of a
// slot. HostServices allows it to reach the host.
func Connect(slot int, hostServices bool, pid, pidfd int) error {
	own := address(slot, hostServices)
	if err := firewall(); err != nil {
		return fmt.Errorf("load the firewall rules: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	if err := layCable(Cable(slot), pid); err != nil {
		return fmt.Errorf("create cable: %w", err)
	}
	outside := func() error {
		return configure(Cable(slot), func(n netlink, index uint32) error {
			return n.do(addressMessage(unix.RTM_NEWADDR, index, gateway(), gateway(), 32), setUp(index), addRoute(index, own, 32, nil))
		})
	}
	inside := func() error {
		if err := withoutIPv6(insideName); err != nil {
			return err
		}
		return configure(insideName, func(n netlink, index uint32) error {
			way := gateway()
			return n.do(addressMessage(unix.RTM_NEWADDR, index, own, gateway(), 32), setUp(index), addRoute(index, [4]byte{}, 0, &way))
		})
	}
	if err := outside(); err != nil {
		return fmt.Errorf("set up the guest's end: %w", err)
	}
	if err := process.InNamespaces(pidfd, unix.CLONE_NEWNET, inside); err != nil {
		return fmt.Errorf("set up the room's end: %w", err)
	}
	return nil
}

// withoutIPv6 disables IPv6 on a device of the thread's network namespace, before the device is up.
// There is no IPv6 route to the outside, and programs would wait for one. The room's loopback keeps
// IPv6.
func withoutIPv6(device string) error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	return err
}

// Disconnect removes the cable of a slot, if there is one.
func Disconnect(slot int) error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	m := linkMessage(unix.RTM_DELLINK, unix.NLM_F_ACK, 0, 0)
	m.text(unix.IFLA_IFNAME, Cable(slot))
	if err := n.do(m); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove cable %d: %w", slot, err)
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
	m := linkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, 0)
	m.text(unix.IFLA_IFNAME, name)
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, "veth")
		m.nest(unix.IFLA_INFO_DATA, func() {
			const peer = 1 // VETH_INFO_PEER
			m.nest(peer, func() {
				m.body = append(m.body, make([]byte, unix.SizeofIfInfomsg)...)
				m.text(unix.IFLA_IFNAME, insideName)
				m.number(unix.IFLA_NET_NS_PID, uint32(pid))
			})
		})
	})
	return n.do(m)
}

func configure(name string, f func(netlink, uint32) error) error {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	return f(n, uint32(ifc.Index))
}

// linkMessage returns a message with struct ifinfomsg.
func linkMessage(kind, flags uint16, index, up uint32) message {
	m := message{kind: kind, flags: flags, body: make([]byte, unix.SizeofIfInfomsg)}
	native.PutUint32(m.body[4:], index)
	native.PutUint32(m.body[8:], up)  // flags
	native.PutUint32(m.body[12:], up) // mask of flags to change
	return m
}

func setUp(index uint32) message {
	return linkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, index, unix.IFF_UP)
}

// addressMessage adds or removes an address of a device, with that of its peer.
func addressMessage(kind uint16, index uint32, own, other [4]byte, bits int) message {
	m := message{
		kind: kind, flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE,
		body: []byte{unix.AF_INET, byte(bits), 0, unix.RT_SCOPE_UNIVERSE},
	}
	m.body = native.AppendUint32(m.body, index)
	m.attribute(unix.IFA_LOCAL, own[:])
	m.attribute(unix.IFA_ADDRESS, other[:])
	return m
}

// addRoute routes a network through a device, via the gateway by unless that is nil.
func addRoute(index uint32, to [4]byte, bits byte, by *[4]byte) message {
	scope := byte(unix.RT_SCOPE_LINK)
	if by != nil {
		scope = unix.RT_SCOPE_UNIVERSE
	}
	m := message{kind: unix.RTM_NEWROUTE, flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE, body: []byte{
		unix.AF_INET, bits, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, scope, unix.RTN_UNICAST, 0, 0, 0, 0,
	}}
	if bits != 0 {
		m.attribute(unix.RTA_DST, to[:])
	}
	if by != nil {
		m.attribute(unix.RTA_GATEWAY, by[:])
	}
	m.number(unix.RTA_OIF, index)
	return m
}

// Actions of a rule, from linux/fib_rules.h.
const (
	actToTable  = 1
	actProhibit = 8
)

// Priorities of the rules, ahead of the main table. Lower numbers are checked first.
const (
	preferNames = 100 + iota
	preferFence
)

// namePort is the port of DNS servers, which may run on the host.
const namePort = 53

// fence blocks rooms from the network between guest and host, where QEMU forwards every address to
// the host's loopback. DNS is still allowed. Rooms with host services have addresses that the rules
// do not match.
func fence(uplink netip.Prefix) error {
	if !uplink.Addr().Is4() {
		return nil // without an uplink, rooms reach nothing
	}
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	uplink = uplink.Masked()
	for _, m := range []message{
		addRule(preferNames, actToTable, uplink, func(m *message) {
			m.number(unix.FRA_TABLE, unix.RT_TABLE_MAIN)
			m.attribute(unix.FRA_DPORT_RANGE, native.AppendUint16(native.AppendUint16(nil, namePort), namePort))
		}),
		addRule(preferFence, actProhibit, uplink),
	} {
		if err := n.do(m); err != nil && !errors.Is(err, unix.EEXIST) { // exists since an earlier lease
			return fmt.Errorf("block rooms from %v: %w", uplink, err)
		}
	}
	return nil
}

// addRule returns a routing rule for packets from fenced rooms to a network.
func addRule(preference uint32, action byte, to netip.Prefix, more ...func(*message)) message {
	rooms, bits := fenced()
	dst := to.Addr().As4()
	m := message{
		kind: unix.RTM_NEWRULE, flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL,
		// struct fib_rule_hdr
		body: []byte{unix.AF_INET, byte(to.Bits()), bits, 0, unix.RT_TABLE_UNSPEC, 0, 0, action, 0, 0, 0, 0},
	}
	m.attribute(unix.FRA_DST, dst[:])
	m.attribute(unix.FRA_SRC, rooms[:])
	m.number(unix.FRA_PRIORITY, preference)
	for _, add := range more {
		add(&m)
	}
	return m
}

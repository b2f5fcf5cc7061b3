//go:build linux

package room

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Every room has an address of 198.18.0.0/15, which is set aside for networks that
// meet no other (RFC 2544), and a cable to the guest, whose end has always the same
// address. There is no network between rooms, only routes. By its address the guest
// knows whether a room may reach the host: see Fence.
const (
	cablePrefix = "room" // and the slot: what the rules of the firewall look for
	insideName  = "eth0"
	// maxSlots is more than fit a guest, and no more than an address has bits for.
	maxSlots = 1 << 12
)

var _ [1<<15 - maxSlots]struct{} // one bit of an address says which kind it is

func cable(slot int) string { return cablePrefix + strconv.Itoa(slot) }

// gateway is the guest's end of each cable.
func gateway() [4]byte { return [4]byte{198, 18, 0, 1} }

// address is the room's end: one of fenced, or beside the gateway one that is not.
func address(slot int, free bool) [4]byte {
	if free {
		return [4]byte{198, 18, 1<<7 | byte(slot>>8), byte(slot)}
	}
	return [4]byte{198, 19, byte(slot >> 8), byte(slot)}
}

// fenced are the addresses of rooms that may not reach the host.
func fenced() ([4]byte, byte) { return [4]byte{198, 19, 0, 0}, 16 }

// connect gives the network namespace of a process, which is held by its pidfd, a
// way out through a cable.
func connect(slot int, own [4]byte, pid, pidfd int) error {
	if err := firewall(); err != nil {
		return fmt.Errorf("load the rules of rooms' networks: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	if err := layCable(cable(slot), pid); err != nil {
		return fmt.Errorf("lay a cable: %w", err)
	}
	outside := func() error {
		return configure(cable(slot), func(n netlink, index uint32) error {
			return n.do(addAddress(index, gateway(), gateway()), setUp(index), addRoute(index, own, 32, nil))
		})
	}
	inside := func() error {
		if err := withoutIPv6(insideName); err != nil {
			return err
		}
		return configure(insideName, func(n netlink, index uint32) error {
			way := gateway()
			return n.do(addAddress(index, own, gateway()), setUp(index), addRoute(index, [4]byte{}, 0, &way))
		})
	}
	if err := outside(); err != nil {
		return fmt.Errorf("set up the guest's end: %w", err)
	}
	if err := within(pidfd, unix.CLONE_NEWNET, inside); err != nil {
		return fmt.Errorf("set up the room's end: %w", err)
	}
	return nil
}

// withoutIPv6 takes IPv6 from a device of the thread's network, before it is up: it
// has no way out, and without an address nothing waits for one. A room's loopback
// keeps it.
func withoutIPv6(device string) error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the kernel has none
	}
	return err
}

// disconnect takes the cable of a slot away, if there is one.
func disconnect(slot int) error {
	n, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer n.close()
	m := linkMessage(unix.RTM_DELLINK, unix.NLM_F_ACK, 0, 0)
	m.text(unix.IFLA_IFNAME, cable(slot))
	if err := n.do(m); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("take cable %d away: %w", slot, err)
	}
	return nil
}

// within runs f on a thread that has entered namespaces of a process.
func within(pidfd, kinds int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with it
		// A mount namespace is entered by who shares its root with nobody.
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(pidfd, kinds)); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// layCable makes a pair of network devices, one here and one in the namespace of
// a process.
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

// linkMessage begins with struct ifinfomsg.
func linkMessage(kind, flags uint16, index, up uint32) message {
	m := message{kind: kind, flags: flags, body: make([]byte, unix.SizeofIfInfomsg)}
	native.PutUint32(m.body[4:], index)
	native.PutUint32(m.body[8:], up)  // flags
	native.PutUint32(m.body[12:], up) // which of them change
	return m
}

func setUp(index uint32) message {
	return linkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, index, unix.IFF_UP)
}

// addAddress gives a device an address and says who is at the other end.
func addAddress(index uint32, own, other [4]byte) message {
	m := message{
		kind: unix.RTM_NEWADDR, flags: unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE,
		body: []byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE},
	}
	m.body = native.AppendUint32(m.body, index)
	m.attribute(unix.IFA_LOCAL, own[:])
	m.attribute(unix.IFA_ADDRESS, other[:])
	return m
}

// addRoute sends a network through a device, by way of a gateway if one is named.
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

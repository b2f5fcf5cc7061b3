//go:build linux

package room

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Of linux/fib_rules.h: what becomes of a packet that a rule fits.
const (
	actToTable  = 1
	actProhibit = 8
)

// Rules that are asked before the usual tables: of two the lower one comes first.
const (
	preferNames = 100 + iota
	preferFence
)

// namePort is where name servers listen, which may be on the host.
const namePort = 53

// Fence keeps rooms from the network that the guest shares with the host alone: QEMU
// answers there, whatever the address, with what listens on the host's own loopback.
// What a room sends there comes back as prohibited. Name servers are spared, and rooms
// that may reach the host's services.
func Fence(uplink netip.Prefix) error {
	if !uplink.Addr().Is4() {
		return nil // rooms have no other way out
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
		if err := n.do(m); err != nil && !errors.Is(err, unix.EEXIST) { // from an earlier lease
			return fmt.Errorf("keep rooms from %v: %w", uplink, err)
		}
	}
	return nil
}

// addRule says what becomes of what fenced rooms send to a network.
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

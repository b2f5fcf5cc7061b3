//go:build linux

package network

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// first returns the machine's first network device. It does not read /sys, which is missing while
// the root changes.
func first() (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b net.Interface) int { return a.Index - b.Index })
	const ethernet = 6 // address length
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && len(i.HardwareAddr) == ethernet {
			return &i, nil
		}
	}
	return nil, errors.New("the machine has no network device")
}

// up sets an interface up.
func up(name string) error {
	return configure(name, func(n netlink, index uint32) error { return n.do(setUp(index)) })
}

// apply sets an interface's address and the default route. It removes the address of an earlier
// lease.
func apply(name string, s Settings, earlier netip.Prefix) error {
	return configure(name, func(n netlink, index uint32) error {
		address := func(kind uint16, p netip.Prefix) message {
			own := p.Addr().As4()
			return addressMessage(kind, index, own, own, p.Bits())
		}
		var list []message
		if earlier.IsValid() && earlier != s.Address {
			list = append(list, address(unix.RTM_DELADDR, earlier))
		}
		list = append(list, address(unix.RTM_NEWADDR, s.Address))
		if s.Gateway.IsValid() {
			gateway := s.Gateway.As4()
			list = append(list, addRoute(index, [4]byte{}, 0, &gateway))
		}
		return n.do(list...)
	})
}

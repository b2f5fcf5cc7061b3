//go:build linux

package network

import (
	"errors"
	"net"
	"os"
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

// control runs an ioctl on an interface.
func control(name string, op uint, set func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := set(r); err != nil {
		return err
	}
	return os.NewSyscallError("configure "+name, unix.IoctlIfreq(fd, op, r))
}

// up sets an interface up.
func up(name string) error {
	return configure(name, func(n netlink, index uint32) error { return n.do(setUp(index)) })
}

// apply sets an interface's address and the default route.
func apply(name string, s Settings) error {
	addr := s.Address.Addr().As4()
	mask := net.CIDRMask(s.Address.Bits(), 32)
	if err := control(name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr[:]) }); err != nil {
		return err
	}
	if err := control(name, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }); err != nil {
		return err
	}
	if !s.Gateway.IsValid() {
		return nil
	}
	gateway := s.Gateway.As4()
	return configure(name, func(n netlink, index uint32) error { return n.do(addRoute(index, [4]byte{}, 0, &gateway)) })
}

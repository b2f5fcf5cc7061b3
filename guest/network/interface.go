//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// first returns the first network device of the machine. It asks the kernel and not
// /sys, which is nowhere for a moment while the root changes.
func first() (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b net.Interface) int { return a.Index - b.Index })
	const ethernet = 6 // bytes of an address
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

func up(name string) error {
	return control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	})
}

// apply gives an interface its address and makes it the way out.
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
	return defaultRoute(name, s.Gateway)
}

// rtentry is the kernel's struct of that name, on 64-bit machines.
type rtentry struct {
	_                     uint64
	dst, gateway, genmask unix.RawSockaddrInet4
	flags                 uint16
	_                     int16
	_                     uint64
	_                     uintptr
	metric                int16
	dev                   *byte
	_, _                  uint64
	_                     uint16
}

func defaultRoute(name string, gateway netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	dev, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	any4 := unix.RawSockaddrInet4{Family: unix.AF_INET}
	r := rtentry{dst: any4, genmask: any4, gateway: any4, flags: unix.RTF_UP | unix.RTF_GATEWAY, dev: dev}
	r.gateway.Addr = gateway.As4()
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r))); e != 0 && e != unix.EEXIST {
		return fmt.Errorf("default route through %v: %w", gateway, e)
	}
	return nil
}

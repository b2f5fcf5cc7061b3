//go:build linux

package pid1

import "golang.org/x/sys/unix"

// patchForGood has the kernel patch itself now for what every agent could have it patch itself
// for at any time, most of it again and again: it begins with the first socket that asks, and
// ends with the last. With several processors running, that can hang a guest that QEMU emulates
// (RATIONALE.md). So a socket for each stays open for as long as this process. What a kernel
// refuses, it does not patch itself for.
func patchForGood() {
	number := func(level, option, value int) func(int) error {
		return func(fd int) error { return unix.SetsockoptInt(fd, level, option, value) }
	}
	for _, keep := range []struct {
		family, kind int
		ask          func(fd int) error
	}{
		{unix.AF_INET, unix.SOCK_DGRAM, number(unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1)},
		{unix.AF_INET, unix.SOCK_DGRAM, number(unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP)},
		{unix.AF_INET6, unix.SOCK_DGRAM, number(unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP)},
		{unix.AF_INET, unix.SOCK_STREAM, number(unix.IPPROTO_IP, unix.IP_MINTTL, 1)},
		{unix.AF_INET6, unix.SOCK_STREAM, number(unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, 1)},
		{unix.AF_INET, unix.SOCK_STREAM, signTo},
		{unix.AF_INET6, unix.SOCK_DGRAM, labelAlone},
	} {
		if fd, err := unix.Socket(keep.family, keep.kind|unix.SOCK_CLOEXEC, 0); err == nil {
			_ = keep.ask(fd)
		}
	}
}

// signTo has a socket of TCP sign what it would send to an address that nobody has.
func signTo(fd int) error {
	s := unix.TCPMD5Sig{Addr: unix.SockaddrStorage{Family: unix.AF_INET}, Keylen: 1}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &s)
}

// labelAlone has a socket own a flow label of IPv6, for the loopback's address.
func labelAlone(fd int) error {
	const ( // of linux/in6.h
		manage            = 32 // IPV6_FLOWLABEL_MGR
		size              = 32 // struct in6_flowlabel_req: the address, then label,
		share, flags      = 21, 22
		exclusive, create = 1, 1
	)
	request := [size]byte{15: 1, share: exclusive, flags: create} // the lower half of flags
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manage, string(request[:]))
}

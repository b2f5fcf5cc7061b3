//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rewire tries to change the network of a room. The kernel looks at who asks before it looks at
// what, so most of that is empty.
func rewire([]string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	say("socket", err)
	var request [128]byte // struct ifreq, rtentry and vlan_ioctl_args, each large enough
	copy(request[:], "eth0")
	for name, number := range map[string]uintptr{
		"address": unix.SIOCSIFADDR, "mac": unix.SIOCSIFHWADDR, "mtu": unix.SIOCSIFMTU, "down": unix.SIOCSIFFLAGS, "name": unix.SIOCSIFNAME,
		"neighbour": unix.SIOCSARP, "route": unix.SIOCADDRT, "no-route": unix.SIOCDELRT, "vlan": unix.SIOCSIFVLAN, "bridge": unix.SIOCBRADDBR,
	} {
		say("ioctl-"+name, sys(unix.SYS_IOCTL, uintptr(fd), number, uintptr(unsafe.Pointer(&request))))
	}
	for name, kind := range map[string]uint16{
		"address": unix.RTM_NEWADDR, "no-address": unix.RTM_DELADDR, "link": unix.RTM_NEWLINK, "route": unix.RTM_NEWROUTE, "no-route": unix.RTM_DELROUTE,
		"rule": unix.RTM_NEWRULE, "neighbour": unix.RTM_NEWNEIGH, "queue": unix.RTM_NEWQDISC,
	} {
		say("netlink-"+name, changes(unix.NETLINK_ROUTE, kind))
	}
	for name, kind := range map[string]uint16{"table": unix.NFT_MSG_NEWTABLE, "no-table": unix.NFT_MSG_DELTABLE, "rule": unix.NFT_MSG_NEWRULE} {
		say("nft-"+name, changes(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|kind))
	}
	for name, flags := range map[string]int{"own": unix.CLONE_NEWNET, "user": unix.CLONE_NEWUSER | unix.CLONE_NEWNET} {
		say("namespace-"+name, unix.Unshare(flags))
	}
	init, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY, 0)
	if err == nil {
		err = unix.Setns(init, unix.CLONE_NEWNET)
	}
	say("namespace-first", err)
	for _, name := range []string{"ipv4/ip_forward", "ipv4/conf/all/rp_filter", "ipv4/conf/eth0/rp_filter", "ipv6/conf/eth0/disable_ipv6"} {
		err := os.WriteFile("/proc/sys/net/"+name, []byte("0"), 0)
		if number, ok := errors.AsType[unix.Errno](err); ok {
			err = number
		}
		say("setting-"+name, err)
	}
}

// changes asks the kernel for a change of the network, and returns its answer.
func changes(family int, kind uint16) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, family)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var m [unix.SizeofNlMsghdr + 32]byte
	binary.NativeEndian.PutUint32(m[:], uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	if err := unix.Sendto(fd, m[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return err
	}
	if number := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); number != 0 {
		return unix.Errno(number)
	}
	return nil
}

//go:build linux

package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// frames GATEWAY OWN TARGET sends frames that the guest's root makes up, whose packets go to port
// 4001 of a target, and at last one as the guest sends them, to port 4000.
func frames(args []string) {
	nic, err := net.InterfaceByName("eth0")
	say("interface", err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	say("socket", err)
	gateway, err := net.ParseMAC(args[0])
	say("gateway", err)
	own, to := netip.MustParseAddr(args[1]), netip.MustParseAddr(args[2])
	broadcast, other := net.HardwareAddr{255, 255, 255, 255, 255, 255}, net.HardwareAddr{2, 0, 0, 0, 0, 1}
	const ipv4, arp, ipv6, vlan = 0x0800, 0x0806, 0x86dd, 0x8100
	packet := func(from netip.Addr, port uint16) []byte {
		b := datagram(from, to)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[ipHeader+2:], port)
		sum := uint32(0)
		for half := range slices.Chunk(b[:ipHeader], 2) {
			sum += uint32(binary.BigEndian.Uint16(half))
		}
		binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
		return b
	}
	send := func(what string, dst, src net.HardwareAddr, protocol uint16, payload []byte) {
		frame := binary.BigEndian.AppendUint16(slices.Concat(dst, src), protocol)
		say(what, unix.Sendto(fd, append(frame, payload...), 0, &unix.SockaddrLinklayer{Ifindex: nic.Index}))
	}
	mine := nic.HardwareAddr
	bad := packet(own, 4001)
	send("arp", broadcast, mine, arp, append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, make([]byte, 38)...))
	send("ipv6", net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, mine, ipv6, append([]byte{0x60}, make([]byte, 55)...))
	send("vlan", gateway, mine, vlan, slices.Concat([]byte{0, 1, 8, 0}, bad))
	send("mac", gateway, other, ipv4, bad)
	send("broadcast", broadcast, mine, ipv4, bad)
	send("runt", gateway, mine, ipv4, bad[:4])
	for _, from := range args[3:] {
		send("from", gateway, mine, ipv4, packet(netip.MustParseAddr(from), 4001))
	}
	send("own", gateway, mine, ipv4, packet(own, 4000))
}

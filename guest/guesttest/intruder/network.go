//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// listen accepts connections at an address until its input ends, and prints where they come from.
func listen(args []string) {
	l, err := net.Listen(args[0], args[1])
	say("listen", err)
	if err != nil {
		os.Exit(1)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Println("accepted", c.RemoteAddr())
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serve answers connections at addresses until its input ends, each as its first byte says: e sends
// back what comes and then an end, h sends bye and counts what comes, and others are ignored.
func serve(addresses []string) {
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		say("listen", err)
		if err != nil {
			os.Exit(1)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				from := c.RemoteAddr().(*net.TCPAddr).IP
				go serveOne(c.(*net.TCPConn), from)
			}
		}()
	}
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func serveOne(c *net.TCPConn, from net.IP) {
	kind := make([]byte, 1)
	_, _ = io.ReadFull(c, kind)
	switch kind[0] {
	case 'e':
		_, _ = io.Copy(c, c)
		fmt.Fprintf(c, "end of %v", from)
		c.Close()
	case 'h':
		fmt.Fprint(c, "bye")
		_ = c.CloseWrite()
		n, err := io.Copy(io.Discard, c)
		fmt.Println("got", n, err)
		c.Close()
	}
}

// dial NETWORK ADDRESS [SECONDS] connects to an address and prints what it receives.
func dial(args []string) {
	patience := 30 * time.Second
	if len(args) > 2 {
		patience = seconds(args[2:])
	}
	c, err := net.DialTimeout(args[0], args[1], patience)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		fmt.Println("unanswered:", err)
		return
	}
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	b, _ := io.ReadAll(c)
	fmt.Printf("connected: %s\n", strings.TrimSpace(string(b)))
}

// spoof PID SOURCE... sends a packet from each source in the network namespace of a process, and
// prints those that leave the guest. The last one must.
func spoof(args []string) {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	nic, err := net.InterfaceByName("eth0")
	must(err)
	const allProtocols = 0x0300 // ETH_P_ALL in network order
	out, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, allProtocols)
	must(err)
	must(unix.Bind(out, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: nic.Index}))
	must(unix.SetsockoptTimeval(out, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	runtime.LockOSThread()
	namespace, err := unix.Open("/proc/"+args[0]+"/ns/net", unix.O_RDONLY, 0)
	must(err)
	must(unix.Setns(namespace, unix.CLONE_NEWNET))
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	must(err)
	to := netip.MustParseAddr("192.0.2.77")
	for _, source := range args[1:] {
		must(unix.Sendto(raw, datagram(netip.MustParseAddr(source), to), 0, &unix.SockaddrInet4{Addr: to.As4()}))
	}
	for last := ""; last != args[len(args)-1]; {
		var b [2048]byte
		n, _, err := unix.Recvfrom(out, b[:], 0)
		must(err)
		if n < ipHeader || [4]byte(b[16:20]) != to.As4() {
			continue
		}
		last = netip.AddrFrom4([4]byte(b[12:16])).String()
		fmt.Println("from", last)
	}
}

const ipHeader, udpHeader = 20, 8

// datagram returns an empty UDP packet. The kernel fills in the rest of the header.
func datagram(from, to netip.Addr) []byte {
	b := make([]byte, ipHeader+udpHeader)
	b[0], b[8], b[9] = 4<<4|ipHeader/4, 64, unix.IPPROTO_UDP
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[ipHeader:], 4000)
	binary.BigEndian.PutUint16(b[ipHeader+2:], 4000)
	binary.BigEndian.PutUint16(b[ipHeader+4:], udpHeader)
	return b
}

// raw opens sockets with which a program writes packets itself.
func raw([]string) {
	for _, s := range []struct {
		name          string
		family, proto int
	}{{"ip", unix.AF_INET, unix.IPPROTO_RAW}, {"icmp", unix.AF_INET, unix.IPPROTO_ICMP}, {"packet", unix.AF_PACKET, 0}} {
		_, err := unix.Socket(s.family, unix.SOCK_RAW, s.proto)
		say(s.name, err)
	}
}

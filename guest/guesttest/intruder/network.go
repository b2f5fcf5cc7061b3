//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
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

// hogConnections ADDRESS COUNT sends a packet to each of many ports, which the kernel tracks as
// connections.
func hogConnections(args []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	to := netip.MustParseAddr(args[0]).As4()
	many, _ := strconv.Atoi(args[1])
	for port := range many {
		// Some fail: the firewall drops them.
		_ = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 1024 + port, Addr: to})
	}
}

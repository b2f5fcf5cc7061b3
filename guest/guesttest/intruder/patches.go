//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// patches COUNT opens and closes sockets with options for which the kernel patches its code: when the
// first socket uses one and when the last is closed.
func patches(args []string) {
	times, _ := strconv.Atoi(args[0])
	for range times {
		for _, s := range []struct{ family, level, option, value int }{
			{unix.AF_INET, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1},
			{unix.AF_INET, unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP},
			{unix.AF_INET6, unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_L2TPINUDP},
		} {
			fd, err := unix.Socket(s.family, unix.SOCK_DGRAM, 0)
			if err == nil {
				err = unix.SetsockoptInt(fd, s.level, s.option, s.value)
			}
			_ = unix.Close(fd)
			if err != nil && s.family != unix.AF_INET6 { // which not every kernel has
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
}

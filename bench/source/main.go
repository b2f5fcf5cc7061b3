//go:build linux

// Command source gives each connection to an AF_VSOCK port the same bytes and prints nothing: source PORT BYTES.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/mdlayher/vsock"
)

// chunk is what it writes at once.
const chunk = 64 << 10

func main() {
	fmt.Fprintln(os.Stderr, serve(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// serve goes on until something goes wrong.
func serve(port, bytes string) error {
	at, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		return err
	}
	total, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	l, err := vsock.Listen(uint32(at), nil)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if err := give(c, total); err != nil {
			return err
		}
	}
}

func give(c net.Conn, total int) error {
	defer c.Close()
	for b := make([]byte, chunk); total > 0; total -= len(b) {
		b = b[:min(total, len(b))]
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

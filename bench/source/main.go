//go:build linux

// Command source gives each connection to an AF_VSOCK port the same bytes, takes as many on the next port, and prints nothing: source PORT BYTES.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/mdlayher/vsock"
)

// chunk is what it writes or reads at once.
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
	ended := make(chan error, 2)
	go func() { ended <- each(uint32(at), func(c net.Conn) error { return give(c, total) }) }()
	go func() { ended <- each(uint32(at)+1, func(c net.Conn) error { return take(c, total) }) }()
	return <-ended
}

// each does the same with every connection to a port.
func each(port uint32, do func(net.Conn) error) error {
	l, err := vsock.Listen(port, nil)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
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

// take reads all, and then says so with a byte.
func take(c net.Conn, total int) error {
	defer c.Close()
	for b := make([]byte, chunk); total > 0; {
		n, err := c.Read(b[:min(total, len(b))])
		if err == io.EOF {
			return nil // a caller who has left
		}
		if err != nil {
			return err
		}
		total -= n
	}
	_, err := c.Write([]byte{0})
	return err
}

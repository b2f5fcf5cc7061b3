//go:build linux

package network

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

const (
	// dialTime bounds the wait for a connection: a server whose queue is full does not answer.
	dialTime = 30 * time.Second
	// socketBuffer bounds what the kernel holds of each direction of a connection, which it does not
	// count to the room.
	socketBuffer = 256 << 10
)

// DialLoopback connects to a port on the loopback of the network that inside calls a function in, by
// IPv4, or by IPv6 if nothing listens there. It fails with NotFound if nothing listens.
func DialLoopback(ctx context.Context, port uint16, inside func(func() error) error) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	dialer := &net.Dialer{Control: boundBuffers}
	// A socket stays in the network that it was made in.
	dial := func(family, host string) (conn net.Conn, err error) {
		err = inside(func() (err error) {
			conn, err = dialer.DialContext(ctx, family, net.JoinHostPort(host, strconv.Itoa(int(port))))
			return err
		})
		return conn, err
	}
	conn, err := dial("tcp4", "127.0.0.1")
	if errors.Is(err, unix.ECONNREFUSED) {
		if conn, err := dial("tcp6", "::1"); err == nil {
			return conn.(*net.TCPConn), nil
		}
		err = fault.Newf(fault.NotFound, "dial loopback", strconv.Itoa(int(port)), "nothing listens on it").
			Advise("Start a server in the agent's room that listens on 127.0.0.1 or on all addresses.")
	}
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// boundBuffers sets the buffers of a socket to half of their bound, which the kernel doubles.
func boundBuffers(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer/2),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer/2))
	})
	return errors.Join(err, failed)
}

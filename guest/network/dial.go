//go:build linux

package network

import (
	"context"
	"errors"
	"net"
	"os"
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
	conn, err := dial(ctx, inside, unix.AF_INET, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.ECONNREFUSED) {
		if conn, err6 := dial(ctx, inside, unix.AF_INET6, &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}); err6 == nil {
			return conn, nil
		}
		err = fault.Newf(fault.NotFound, "dial loopback", strconv.Itoa(int(port)), "nothing listens on it").
			Advise("Start a server in the agent's room that listens on 127.0.0.1 or on all addresses.")
	}
	return conn, err
}

// dial connects a socket. A socket stays in the network that it was made in.
func dial(ctx context.Context, inside func(func() error) error, family int, to unix.Sockaddr) (*net.TCPConn, error) {
	fd := -1
	err := inside(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer/2), // the kernel doubles it
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer/2))
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, to); err != nil && err != unix.EINPROGRESS {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if err := connected(ctx, conn.(*net.TCPConn)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// connected waits until a connection is made.
func connected(ctx context.Context, conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Getpeername(int(fd)); err == nil {
			return true
		}
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && n != 0 {
			err = syscall.Errno(n)
		}
		failed = err
		return err != nil
	})
	if !stop() {
		return ctx.Err()
	}
	return errors.Join(err, failed)
}

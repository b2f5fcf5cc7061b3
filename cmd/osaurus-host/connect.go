package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"osaurus-sandbox/internal/fault"
)

// forConnection bounds the wait for a connection: a server whose queue is full does not answer.
const forConnection = 30 * time.Second

// connect connects standard input and output to a server on a port of this room, until the server
// closes the connection. The end of the input is passed on: some clients ask once and then listen.
func (s system) connect(ctx context.Context, words []string) error {
	const advice = "People forward ports: osaurus-sandbox forward AGENT PORT."
	if len(words) != 1 {
		return misused("connect: it takes PORT", advice)
	}
	if port, err := strconv.ParseUint(words[0], 10, 16); err != nil || port == 0 {
		return misused("connect: a port is a number, 1 to 65535", advice)
	}
	conn, err := dialHere(ctx, words[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, s.in)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(s.out, conn) // the reader sees how the connection ends
	return nil
}

// dialHere connects to a port by IPv4, or by IPv6 if nothing listens there.
func dialHere(ctx context.Context, port string) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: forConnection}
	var failed error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if failed == nil {
			failed = err
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	kind := fault.KindOf(failed)
	if errors.Is(failed, syscall.ECONNREFUSED) {
		kind = fault.NotFound
	}
	return nil, fault.New(kind, "connect to port", port, failed)
}

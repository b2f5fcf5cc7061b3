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

// forConnection is how long what listens here may take to have a connection: one whose
// queue is full does not answer.
const forConnection = 30 * time.Second

// connect carries what comes in to what listens on a port of this room, and what that
// answers out, until it ends the connection. The end of what comes in is passed on, as
// programs that ask once and then listen need it.
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
	_, _ = io.Copy(s.out, conn) // how a connection ends, whoever reads it sees
	return nil
}

// dialHere connects to a port by IPv4, or where nothing listens there by IPv6.
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

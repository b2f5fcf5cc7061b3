//go:build linux

package network

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// TestDialLoopback connects to servers in another network, with one port for each family.
func TestDialLoopback(t *testing.T) {
	timetest.NoLeaks(t)
	room := newPlace(t)
	inside := func(f func() error) error { return process.InNamespaces(int(room.Fd()), unix.CLONE_NEWNET, f) }
	for port, host := range map[uint16]string{4000: "127.0.0.1", 4001: "::1", 4002: "::"} {
		var l net.Listener
		address := &net.TCPAddr{IP: net.ParseIP(host), Port: int(port)}
		room.do(t, func() (err error) { l, err = net.ListenTCP("tcp", address); return err })
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Write([]byte("x"))
				c.Close()
			}
		}()
		conn, err := DialLoopback(t.Context(), port, inside)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		defer conn.Close()
		b := make([]byte, 1)
		if n, err := conn.Read(b); n != 1 || err != nil || !conn.RemoteAddr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("%s: %d, %v from %v", host, n, err, conn.RemoteAddr())
		}
	}
	if _, err := DialLoopback(t.Context(), 4003, inside); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
		t.Errorf("nothing listens: %v", err)
	}
	if _, err := DialLoopback(t.Context(), 4000, func(f func() error) error { return unix.ESRCH }); !errors.Is(err, unix.ESRCH) {
		t.Errorf("no such network: %v", err)
	}
}

// TestDialLoopbackWaits dials a server whose queue is full. The context ends that.
func TestDialLoopbackWaits(t *testing.T) {
	timetest.NoLeaks(t)
	room := newPlace(t)
	inside := func(f func() error) error { return process.InNamespaces(int(room.Fd()), unix.CLONE_NEWNET, f) }
	room.do(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: 4000, Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0))
	})
	const tries = 4 // more than the queue holds
	for range tries {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		conn, err := DialLoopback(ctx, 4000, inside)
		if fault.KindOf(err) == fault.Timeout {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	t.Error("all were accepted")
}

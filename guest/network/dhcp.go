//go:build linux

package network

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	serverPort, clientPort = 67, 68
	// The wait for an answer doubles from firstWait to lastWait. It starts short because the kernel
	// drops packets until it has noticed that the link is up.
	firstWait, lastWait = 50 * time.Millisecond, 8 * time.Second
	// minLease limits how often a server with very short leases makes us renew.
	minLease = time.Minute
	// maxPacket is larger than any answer to a client that sends no maximum size.
	maxPacket = 1500
)

type lease struct {
	Settings
	duration time.Duration
}

// acquire asks for a lease until a server grants one or the context ends.
func acquire(ctx context.Context, ifc *net.Interface, hostname string) (lease, error) {
	conn, err := listen(ctx, ifc.Name)
	if err != nil {
		return lease{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	var id [4]byte
	_, _ = rand.Read(id[:])
	return client{conn: conn, ifc: ifc, hostname: hostname, xid: binary.BigEndian.Uint32(id[:])}.acquire(ctx)
}

type client struct {
	conn     net.PacketConn
	ifc      *net.Interface
	hostname string
	xid      uint32
}

func (c client) acquire(ctx context.Context) (lease, error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		over := time.After(wait)
		got, err := c.exchange(wait)
		if err == nil {
			return got, nil
		}
		select { // wait after a refusal too
		case <-over:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return lease{}, fmt.Errorf("no DHCP server answered: %w", err)
		}
	}
}

// exchange does one discover, offer, request and acknowledgement.
func (c client) exchange(wait time.Duration) (lease, error) {
	a := ask{kind: discover, xid: c.xid, mac: c.ifc.HardwareAddr, hostname: c.hostname}
	offered, err := c.roundTrip(a, wait, offer)
	if err != nil {
		return lease{}, err
	}
	a.kind, a.address, a.server = request, offered.address, offered.server
	m, err := c.roundTrip(a, wait, ack)
	if err != nil {
		return lease{}, err
	}
	return m.asLease()
}

func (c client) roundTrip(a ask, wait time.Duration, want byte) (reply, error) {
	if _, err := c.conn.WriteTo(a.bytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: serverPort}); err != nil {
		return reply{}, err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return reply{}, err
	}
	buf := make([]byte, maxPacket)
	for {
		n, _, err := c.conn.ReadFrom(buf)
		if err != nil {
			return reply{}, err
		}
		m, err := parse(buf[:n], a.xid, a.mac)
		switch {
		case err != nil: // not an answer to us
		case m.kind == want:
			return m, nil
		case m.kind == nack:
			return reply{}, fmt.Errorf("the server refused %v", a.address)
		}
	}
}

// listen opens a UDP socket that works on an interface without an address.
func listen(ctx context.Context, ifname string) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = os.NewSyscallError("bind to "+ifname, unix.BindToDevice(int(fd), ifname)) })
		return cmp.Or(err, failed)
	}}
	return config.ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", clientPort))
}

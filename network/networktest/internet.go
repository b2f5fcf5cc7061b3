package networktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/network/policy"
)

// Internet is a Dialer for servers of the test's own, by address and by name. Its sockets are on
// this computer's loopback.
type Internet struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[server]string // the loopback address of each
	dials   []Dial
}

type server struct {
	protocol policy.Protocol
	addr     netip.AddrPort
}

// Dial is an attempt to reach something.
type Dial struct {
	Protocol policy.Protocol
	Name     string
	To       netip.AddrPort
}

// NewInternet returns an empty internet.
func NewInternet() *Internet {
	return &Internet{names: map[string][]netip.Addr{}, servers: map[server]string{}}
}

// Name sets the addresses of a name.
func (n *Internet) Name(name string, addrs ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addrs
}

// Serve runs a TCP server. The handler's connection is closed when it returns.
func (n *Internet) Serve(t testing.TB, at netip.AddrPort, handle func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			running.Go(func() {
				handle(c)
				_ = c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	n.add(server{policy.TCP, at}, l.Addr())
}

// Place has an address lead to a TCP server on this computer's loopback.
func (n *Internet) Place(at netip.AddrPort, on net.Addr) {
	n.add(server{policy.TCP, at}, on)
}

// ServeUDP runs a UDP server that answers each datagram.
func (n *Internet) ServeUDP(t testing.TB, at netip.AddrPort, answer func([]byte) []byte) {
	t.Helper()
	n.serveDatagrams(t, server{policy.UDP, at}, answer)
}

// ServeEcho has an address answer pings.
func (n *Internet) ServeEcho(t testing.TB, at netip.Addr) {
	t.Helper()
	n.serveDatagrams(t, server{policy.ICMP, netip.AddrPortFrom(at, 0)}, func(request []byte) []byte {
		reply := slices.Clone(request)
		reply[0] = 0 // an echo reply
		return reply
	})
}

func (n *Internet) serveDatagrams(t testing.TB, at server, answer func([]byte) []byte) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 65535)
		for {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(answer(buf[:size]), from)
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	n.add(at, c.LocalAddr())
}

func (n *Internet) add(s server, at net.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[s] = at.String()
}

// Dials returns what was dialed so far.
func (n *Internet) Dials() []Dial {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials)
}

// Dial implements network.Dialer.
func (n *Internet) Dial(ctx context.Context, protocol policy.Protocol, name string, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	at, ok := n.servers[server{protocol, to}]
	n.dials = append(n.dials, Dial{protocol, name, to})
	n.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: string(protocol), Err: syscall.ECONNREFUSED}
	}
	transport := "udp"
	if protocol == policy.TCP {
		transport = "tcp"
	}
	var d net.Dialer
	return d.DialContext(ctx, transport, at)
}

// LookupNetIP implements network.Dialer.
func (n *Internet) LookupNetIP(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addrs, ok := n.names[name]
	if !ok {
		return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return slices.Clone(addrs), time.Minute, nil
}

// Echo sends everything back.
func Echo(c net.Conn) {
	_, _ = io.Copy(c, c)
}

// Exchange writes a text, ends that direction, and reads until the end.
func Exchange(c net.Conn, text string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", fmt.Errorf("write: %w", err)
	}
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return "", errors.New("the connection cannot be half closed")
	}
	if err := half.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

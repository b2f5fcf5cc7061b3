package network

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"crypto/tls"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/icmp"

	"osaurus-sandbox/network/hello"
	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/policy"
)

const (
	// unknownTTL is the time for which the computer's resolver is believed, which does not tell
	// the TTL.
	unknownTTL = time.Minute
	// resolverPatience is how long the resolver may take if a proxy can do without it.
	resolverPatience = 3 * time.Second
)

// hostDialer reaches the outside as this computer's programs do.
type hostDialer struct {
	*net.Resolver // it implements names.Records
	direct        net.Dialer
	proxy         func(*url.URL) (*url.URL, error)
}

var _ names.Records = (*hostDialer)(nil)

// newHostDialer reads the proxy settings of the environment, in capitals and in lower case.
func newHostDialer() *hostDialer {
	return &hostDialer{Resolver: net.DefaultResolver, proxy: httpproxy.FromEnvironment().ProxyFunc()}
}

// LookupNetIP implements Dialer. The final dot keeps search domains out. It asks for IPv6 addresses
// only if there are no others. What this computer cannot resolve is left to its proxy.
func (d *hostDialer) LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	name = strings.TrimSuffix(name, ".")
	proxy, _ := d.proxyFor(name, netip.AddrPortFrom(netip.Addr{}, portHTTPS))
	if proxy != nil {
		limited, cancel := context.WithTimeout(ctx, resolverPatience)
		defer cancel()
		ctx = limited
	}
	addrs, err := d.Resolver.LookupNetIP(ctx, "ip4", name+".")
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		addrs, err = d.Resolver.LookupNetIP(ctx, "ip6", name+".")
	}
	if err != nil && proxy != nil {
		err = names.ErrByProxy
	}
	return addrs, unknownTTL, err
}

// Dial implements Dialer. Without a proxy it dials the address alone, whatever the name resolves to
// by now.
func (d *hostDialer) Dial(ctx context.Context, protocol policy.Protocol, name string, to netip.AddrPort) (net.Conn, error) {
	switch protocol {
	case policy.UDP:
		return d.direct.DialContext(ctx, "udp", to.String())
	case policy.ICMP:
		return dialEcho(to.Addr())
	case policy.TCP:
	default:
		return nil, fmt.Errorf("dial: unknown protocol %q", protocol)
	}
	proxy, err := d.proxyFor(name, to)
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return d.direct.DialContext(ctx, "tcp", to.String())
	}
	return d.dialProxy(ctx, proxy, authority(name, to))
}

func authority(name string, to netip.AddrPort) string {
	if name == "" {
		return to.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(int(to.Port())))
}

// proxyFor returns the proxy for a target, or nil. NO_PROXY may list the name or the address.
func (d *hostDialer) proxyFor(name string, to netip.AddrPort) (*url.URL, error) {
	if to.Addr().IsLoopback() {
		return nil, nil
	}
	scheme := "https"
	if to.Port() == 80 {
		scheme = "http"
	}
	proxy, err := d.proxy(&url.URL{Scheme: scheme, Host: authority(name, to)})
	if err != nil || proxy == nil || name == "" || !to.Addr().IsValid() {
		return proxy, err
	}
	return d.proxy(&url.URL{Scheme: scheme, Host: to.String()})
}

// dialProxy asks an HTTP proxy for a connection.
func (d *hostDialer) dialProxy(ctx context.Context, proxy *url.URL, target string) (net.Conn, error) {
	if proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, fmt.Errorf("the proxy %s is not supported: use http or https", proxy.Redacted())
	}
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	conn, err := d.direct.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("connect to the proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := connectProxy(ctx, conn, proxy, target)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return tunnel, nil
}

func connectProxy(ctx context.Context, conn net.Conn, proxy *url.URL, target string) (net.Conn, error) {
	if proxy.Scheme == "https" {
		secured := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("connect to the proxy: %w", err)
		}
		conn = secured
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("ask the proxy: %w", err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, fmt.Errorf("ask the proxy: %w", err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answers %q for %s", answer.Status, target)
	}
	if reader.Buffered() == 0 {
		return conn, nil
	}
	return &bufferedConn{conn, reader}, nil
}

// bufferedConn is a connection whose first bytes are in a buffer.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (c *bufferedConn) CloseWrite() error { return hello.CloseWrite(c.Conn) }

// echoConn sends ICMP echo requests to one address, and reads its replies. It needs no privileges,
// but the system may keep users from it: net.ipv4.ping_group_range on Linux.
type echoConn struct {
	*icmp.PacketConn
	to net.Addr
}

func dialEcho(to netip.Addr) (net.Conn, error) {
	if !to.Is4() {
		return nil, errors.New("pings reach IPv4 addresses only")
	}
	c, err := icmp.ListenPacket("udp4", "0.0.0.0")
	if err != nil {
		return nil, err
	}
	return &echoConn{c, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 0))}, nil
}

func (c *echoConn) RemoteAddr() net.Addr        { return c.to }
func (c *echoConn) Write(p []byte) (int, error) { return c.WriteTo(p, c.to) }
func (c *echoConn) Read(p []byte) (int, error) {
	n, _, err := c.ReadFrom(p)
	return n, err
}

// LocalNetworks returns this computer's addresses with their networks.
func LocalNetworks() (list []netip.Prefix) {
	addrs, _ := net.InterfaceAddrs() // without them, only the ranges that are always local are closed
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Bits() > 0 {
			list = append(list, p)
		}
	}
	return list
}

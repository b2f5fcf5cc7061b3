package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"osaurus-sandbox/network/policy"
)

// dialLimit bounds the connection and the TLS handshake, each.
const dialLimit = 15 * time.Second

// Options configures a Client. The zero value is for the internet.
type Options struct {
	// GitHubAPI and GitHubRaw are the addresses of GitHub's API and of its raw files.
	GitHubAPI, GitHubRaw string
	// May reports whether an address may be connected to. The default is policy.Public.
	May func(netip.AddrPort) bool
	// Roots are the trusted certificates; nil means those of this computer.
	Roots *x509.CertPool
}

// Client downloads files from the internet, and nothing from local networks.
type Client struct {
	options Options
	http    *http.Client
	proxies sync.Map // host:port of proxies in the environment
}

// NewClient returns a client.
func NewClient(o Options) *Client {
	if o.GitHubAPI == "" {
		o.GitHubAPI = "https://api.github.com"
	}
	if o.GitHubRaw == "" {
		o.GitHubRaw = "https://raw.githubusercontent.com"
	}
	if o.May == nil {
		o.May = func(to netip.AddrPort) bool { return policy.Public(to.Addr()) }
	}
	c := &Client{options: o}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: c.proxy, DialContext: c.dial, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: dialLimit, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return errors.New("too many redirects")
			case req.URL.Scheme != "https":
				return &refusal{to: req.URL.Scheme, why: "is not https"}
			}
			return nil // Proxy checks the address
		},
	}
	return c
}

// refusal says why a connection is refused.
type refusal struct{ to, why string }

func (r *refusal) Error() string { return fmt.Sprintf("%s %s", r.to, r.why) }

const notPublic = "is an address of this computer or of a network of its own"

// proxy returns the proxy of the environment. What a proxy connects to is its operator's business.
func (c *Client) proxy(req *http.Request) (*url.URL, error) {
	if err := c.named(req.URL); err != nil {
		return nil, err
	}
	u, err := http.ProxyFromEnvironment(req)
	if u != nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		}
		c.proxies.Store(net.JoinHostPort(u.Hostname(), port), true)
	}
	return u, err
}

// named refuses local IP addresses in a URL, so that no proxy is asked for them.
func (c *Client) named(u *url.URL) error {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // dial checks what a name resolves to
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	if err != nil || !c.options.May(netip.AddrPortFrom(addr, uint16(port))) {
		return &refusal{to: u.Host, why: notPublic}
	}
	return nil
}

// dial checks the address that it connects to, so that a name cannot resolve to another address
// after the check.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialLimit}
	if _, is := c.proxies.Load(address); !is {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !c.options.May(to) {
				return &refusal{to: address, why: notPublic}
			}
			return nil
		}
	}
	return d.DialContext(ctx, network, address)
}

package network

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/names"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// proxy is an HTTP proxy that connects every request to itself, and echoes.
func proxy(t *testing.T, requests chan<- *http.Request, status string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reader := bufio.NewReader(c)
			if r, err := http.ReadRequest(reader); err == nil {
				requests <- r
				io.WriteString(c, "HTTP/1.1 "+status+"\r\n\r\nwelcome ")
				io.Copy(c, reader)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestProxySettingsOfThisComputerAreHonoured(t *testing.T) {
	requests := make(chan *http.Request, 8)
	at := proxy(t, requests, "200 OK")
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "NO_PROXY", "REQUEST_METHOD"} {
		t.Setenv(v, "")
	}
	t.Setenv("https_proxy", "http://user:word@"+at)
	t.Setenv("no_proxy", "direct.example,127.0.0.0/8,203.0.113.128/25")
	d := newHostDialer()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := d.Dial(ctx, policy.TCP, "api.example", netip.MustParseAddrPort("203.0.113.5:443"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := networktest.Exchange(c, "hello"); err != nil || got != "welcome hello" {
		t.Errorf("got %q, %v", got, err)
	}
	r := <-requests
	if r.Method != http.MethodConnect || r.Host != "api.example:443" || r.Header.Get("Proxy-Authorization") != "Basic dXNlcjp3b3Jk" {
		t.Errorf("the proxy was asked %s %s with %v", r.Method, r.Host, r.Header)
	}
	for _, tt := range []struct {
		name, to string
		proxied  bool
	}{
		{"api.example", "203.0.113.5:443", true},
		{"", "203.0.113.5:443", true},
		{"direct.example", "203.0.113.5:443", false},
		{"api.example", "203.0.113.200:443", false},
		{"localhost", "127.0.0.1:443", false},
		{"api.example", "203.0.113.5:80", false}, // http_proxy is not set
	} {
		got, err := d.proxyFor(tt.name, netip.MustParseAddrPort(tt.to))
		if err != nil || (got != nil) != tt.proxied {
			t.Errorf("%s at %s: proxy %v, %v", tt.name, tt.to, got, err)
		}
	}
}

// A computer whose only way out is a proxy resolves no names.
func TestNamesThatOnlyTheProxyResolves(t *testing.T) {
	requests := make(chan *http.Request, 8)
	at := proxy(t, requests, "200 OK")
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "NO_PROXY", "REQUEST_METHOD"} {
		t.Setenv(v, "")
	}
	t.Setenv("https_proxy", "http://"+at)
	t.Setenv("no_proxy", "direct.example")
	l := newLab(t, func(g *Gateway) {
		d := newHostDialer()
		d.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
		g.dialer = d
		g.dns = g.newNameServer()
	})
	l.set("alice", testRules{decide: func(t policy.Target) policy.Decision {
		if t.Name == "api.example" || t.Name == "direct.example" {
			return allowed
		}
		return denied
	}})
	queries, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(subnet.Gateway(), 53))
	if err != nil {
		t.Fatal(err)
	}
	defer queries.Close()
	if m, err := exchange(queries, "direct.example"); err != nil || m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a name without a proxy: %v, %v", m, err)
	}
	m, err := exchange(queries, "api.example")
	if err != nil || len(addresses(m)) != 1 {
		t.Fatalf("got %v, %v", m, err)
	}
	c, err := l.dial(l.alice, netip.MustParseAddr(addresses(m)[0]), 443)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := networktest.Exchange(c, "hello"); err != nil || got != "welcome hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if r := <-requests; r.Host != "api.example:443" {
		t.Errorf("the proxy was asked for %q", r.Host)
	}
	if _, err := l.dial(l.alice, netip.MustParseAddr(addresses(m)[0]), 80); err == nil {
		t.Error("a port without a proxy connected")
	}
	held := l.names.Hold(l.alice, "denied.example")
	if _, err := l.dial(l.alice, held, 22); err == nil || len(requests) > 0 {
		t.Error("a name that is not allowed reached the proxy")
	}
}

func TestProxyThatRefuses(t *testing.T) {
	requests := make(chan *http.Request, 1)
	t.Setenv("HTTPS_PROXY", "http://"+proxy(t, requests, "407 Proxy Authentication Required"))
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	_, err := newHostDialer().Dial(context.Background(), policy.TCP, "api.example", netip.MustParseAddrPort("203.0.113.5:443"))
	if err == nil || !strings.Contains(err.Error(), "407") {
		t.Errorf("got %v", err)
	}
}

func TestProxyThatIsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("HTTPS_PROXY", "http://"+l.Addr().String())
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if c, err := newHostDialer().Dial(ctx, policy.TCP, "api.example", netip.MustParseAddrPort("203.0.113.5:443")); err == nil {
		c.Close()
		t.Error("a proxy that says nothing connected")
	}
}

func TestN06TheAddressIsDialed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := newHostDialer().Dial(context.Background(), policy.TCP, "no-such-name.invalid", l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A peer that went away while this computer slept tells nobody. The system must ask it, so that the
// flow ends.
func TestConnectionsProbeTheirPeers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := newHostDialer().Dial(t.Context(), policy.TCP, "", netip.MustParseAddrPort(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var probes int
	failed := raw.Control(func(fd uintptr) { probes, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE) })
	if failed != nil || err != nil || probes == 0 {
		t.Errorf("SO_KEEPALIVE is %d, %v, %v", probes, failed, err)
	}
}

// The gateway finds by a type assertion that the dialer resolves TXT, MX and SRV.
func TestHostDialerResolvesOtherTypes(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"word"}}}
		_ = w.WriteMsg(m)
	})}
	done := make(chan struct{})
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); <-done })
	d := newHostDialer()
	d.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	records, ok := Dialer(d).(names.Records)
	if !ok {
		t.Fatal("the dialer resolves no TXT")
	}
	if texts, err := records.LookupTXT(t.Context(), "some.example."); err != nil || len(texts) != 1 || texts[0] != "word" {
		t.Errorf("TXT: %q, %v", texts, err)
	}
}

//go:build linux

package bench_test

import (
	"context"
	"crypto/x509"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/boot"
)

// Names of the web server. A secret is bound to the first one.
const (
	openedName = "opened.example.com"
	plainName  = "plain.example.com"
)

// outside is this computer, with a name server and a web server of the bench. It implements
// network.Dialer.
type outside struct {
	net.Dialer
	net.Resolver
	namePort  int
	web       *httptest.Server
	authority *intercept.Authority
	opened    atomic.Int64 // connections
}

func newOutside(b *testing.B) *outside {
	b.Helper()
	o := &outside{}
	listener, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	names := &dns.Server{PacketConn: listener, Handler: dns.HandlerFunc(answerName)}
	go names.ActivateAndServe()
	b.Cleanup(func() { _ = names.Shutdown() })
	o.namePort = listener.LocalAddr().(*net.UDPAddr).Port
	o.Resolver.PreferGo = true
	o.Resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return o.Dialer.DialContext(ctx, network, listener.LocalAddr().String())
	}
	o.web = httptest.NewTLSServer(http.HandlerFunc(serveBytes))
	b.Cleanup(o.web.Close)
	if o.authority, err = intercept.OpenAuthority(noStore{}); err != nil {
		b.Fatal(err)
	}
	return o
}

// answerName gives every name one address of the internet.
func answerName(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg).SetReply(query)
	if q := query.Question[0]; q.Qtype == dns.TypeA {
		reply.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: webAddr().AsSlice(),
		}}
	}
	_ = w.WriteMsg(reply)
}

func webAddr() netip.Addr { return netip.AddrFrom4([4]byte{93, 184, 215, 14}) }

// serveBytes serves as many bytes as the path says.
func serveBytes(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/"), 10, 64)
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, endless{}, n)
}

// Dial implements network.Dialer.
func (o *outside) Dial(ctx context.Context, protocol policy.Protocol, _ string, to netip.AddrPort) (net.Conn, error) {
	if to.Addr() == webAddr() {
		return o.DialContext(ctx, "tcp", o.web.Listener.Addr().String())
	}
	return o.DialContext(ctx, string(protocol), to.String())
}

// LookupNetIP implements network.Dialer.
func (o *outside) LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	addrs, err := o.Resolver.LookupNetIP(ctx, "ip4", name+".")
	return addrs, time.Minute, err
}

// options configures a gateway to this computer, which opens connections to one name.
func (o *outside) options(b *testing.B) *network.Options {
	b.Helper()
	roots, live := x509.NewCertPool(), new(redact.Live)
	roots.AddCert(o.web.Certificate())
	value, err := secrets.ParseValue("a-token-of-the-bench")
	if err != nil {
		b.Fatal(err)
	}
	live.Set(redact.New([]redact.Secret{{Name: "TOKEN", Value: value}}))
	options := boot.OpenNetwork(config.NetworkRule{Host: config.Localhost})
	options.Dialer = o
	options.Opens = func(_ network.Subject, host string, i *intercept.Options) bool {
		if i != nil {
			o.opened.Add(1)
			i.Authority, i.Roots = o.authority, roots
			i.Redact = func(from io.ReadCloser) io.ReadCloser { return redacted(live, from) }
		}
		return host == openedName
	}
	return options
}

// redacted does what the vault does.
func redacted(live *redact.Live, from io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		output := redact.NewOutput(live)
		_, err := io.Copy(output.Writer(w), from)
		_ = output.Close()
		_ = w.CloseWithError(err)
	}()
	return &redactedBody{r, from}
}

type redactedBody struct {
	*io.PipeReader
	from io.Closer
}

func (r *redactedBody) Close() error {
	_ = r.PipeReader.Close()
	return r.from.Close()
}

// noStore forgets the authority.
type noStore struct{}

func (noStore) Load() ([]byte, error) { return nil, fs.ErrNotExist }
func (noStore) Save([]byte) error     { return nil }

// serveEach serves connections on this computer's loopback.
func serveEach(b *testing.B, serve func(net.Conn)) int {
	b.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// takeAll reads the bytes of each round, and says that it has them.
func takeAll(c net.Conn) {
	for {
		if _, err := io.CopyN(io.Discard, c, networkBytes); err != nil {
			return
		}
		_, _ = c.Write([]byte{1})
	}
}

// giveAll writes the bytes of each round when it is asked.
func giveAll(c net.Conn) {
	for {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return
		}
		_, _ = io.CopyN(c, endless{}, networkBytes)
	}
}

// endless has bytes without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

package intercept

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/network/policy"
)

const (
	host        = "api.example.org"
	placeholder = "osr_5cYp1x0A9mQe7TzB"
	otherHolder = "osr_Zz81kLqW2rYt6UoP"
	value       = "ghp_Secret/Value+0123456789=abcdef"
	// patience is how long a test waits for what must happen.
	patience = time.Minute
)

// memory is a store in memory.
type memory struct{ text []byte }

func (m *memory) Load() ([]byte, error) {
	if m.text == nil {
		return nil, fs.ErrNotExist
	}
	return m.text, nil
}

func (m *memory) Save(text []byte) error { m.text = text; return nil }

// seen is what an API got.
type seen struct {
	Method, Host, Target, Proto string
	Header                      http.Header
	Body                        string
}

// lab is an API behind the gateway.
type lab struct {
	t         testing.TB
	authority *Authority
	api       *httptest.Server
	options   Options
	dialed    int

	mu     sync.Mutex
	got    []seen
	served sync.WaitGroup
}

// newLab starts an API. Its handler may be nil: it then answers "hello".
func newLab(t testing.TB, secure bool, handler http.HandlerFunc) *lab {
	t.Helper()
	before := runtime.NumGoroutine()
	l := &lab{t: t}
	l.api = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := seen{Method: r.Method, Host: r.Host, Target: r.RequestURI, Proto: r.Proto, Header: r.Header.Clone()}
		if handler == nil {
			text, _ := io.ReadAll(r.Body)
			s.Body = string(text)
		}
		l.mu.Lock()
		l.got = append(l.got, s)
		l.mu.Unlock()
		if handler == nil {
			io.WriteString(w, "hello")
			return
		}
		handler(w, r)
	}))
	l.api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	var err error
	if l.authority, err = OpenAuthority(&memory{}); err != nil {
		t.Fatal(err)
	}
	l.options = Options{
		Name: host, Port: 80, Authority: l.authority, Agent: "alice",
		Authorize: func(context.Context, string, string) policy.Decision { return policy.Decision{Action: policy.Allow} },
		Log:       slog.New(slog.DiscardHandler),
	}
	if secure {
		certificate, roots := upstreamCertificate(t, host, time.Now().Add(time.Hour))
		l.api.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		l.api.EnableHTTP2 = true
		l.api.StartTLS()
		l.options.Port, l.options.TLS, l.options.Roots = 443, true, roots
	} else {
		l.api.Config.Protocols = new(http.Protocols)
		l.api.Config.Protocols.SetHTTP1(true)
		l.api.Config.Protocols.SetUnencryptedHTTP2(true)
		l.api.Start()
	}
	l.options.Dial = func(ctx context.Context) (net.Conn, error) {
		l.mu.Lock()
		l.dialed++
		l.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, "tcp", l.api.Listener.Addr().String())
	}
	t.Cleanup(func() {
		l.api.CloseClientConnections()
		l.api.Close()
		l.served.Wait()
		for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
	return l
}

// upstreamCertificate makes a certificate that signs itself.
func upstreamCertificate(t testing.TB, name string, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, roots
}

// bind binds the secret to the host in a position, and another secret to another host.
func (l *lab) bind(c Credential) {
	c.Secret, c.Placeholder, c.Hosts = "GITHUB_TOKEN", placeholder, []string{host}
	c.Value = func(context.Context) (string, error) { return value, nil }
	l.options.Credentials = append(l.options.Credentials, c)
	l.options.Foreign = []Credential{{Secret: "OTHER_KEY", Placeholder: otherHolder, Hosts: []string{"other.example.org"}}}
	l.options.Redact = redact
}

// connect returns a connection that the gateway serves.
func (l *lab) connect() net.Conn {
	near, _ := l.pair()
	return near
}

// pair returns a connection, and where the outcome of Serve arrives.
func (l *lab) pair() (net.Conn, <-chan error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Error(err)
		return nil, nil
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		l.t.Error(err)
		return nil, nil
	}
	far, err := listener.Accept()
	if err != nil {
		l.t.Error(err)
		return nil, nil
	}
	done := make(chan error, 1)
	l.served.Add(1)
	go func() {
		defer l.served.Done()
		done <- Serve(l.t.Context(), far, l.options)
	}()
	return near, done
}

// trust returns the client's side of TLS.
func (l *lab) trust(protocols ...string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.authority.PEM())
	return &tls.Config{RootCAs: roots, ServerName: host, NextProtos: protocols}
}

// client returns an HTTP client in a room that speaks a version of HTTP.
func (l *lab) client(major int) *http.Client {
	t := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return l.connect(), nil },
		TLSClientConfig:    l.trust(),
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	t.Protocols.SetHTTP1(major == 1)
	t.Protocols.SetHTTP2(major == 2)
	t.Protocols.SetUnencryptedHTTP2(major == 2 && !l.options.TLS)
	l.t.Cleanup(t.CloseIdleConnections) // before the lab's own end
	return &http.Client{Transport: t, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// do sends a request and returns the answer with its body.
func (l *lab) do(c *http.Client, method, target, text string, change func(*http.Request)) (*http.Response, string) {
	l.t.Helper()
	scheme := "http://"
	if l.options.TLS {
		scheme = "https://"
	}
	if strings.HasPrefix(target, "/") {
		target = scheme + host + target
	}
	var from io.Reader
	if text != "" {
		from = strings.NewReader(text)
	}
	r, err := http.NewRequestWithContext(l.t.Context(), method, target, from)
	if err != nil {
		l.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	res, err := c.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return res, string(page)
}

// arrived returns what the API got.
func (l *lab) arrived() []seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got
}

// redact replaces the value in a stream. It holds back only what may begin the value.
func redact(from io.ReadCloser) io.ReadCloser { return &redactor{from: from} }

type redactor struct {
	from      io.ReadCloser
	held, out []byte
	err       error
}

func (r *redactor) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		piece := make([]byte, 4<<10)
		var n int
		n, r.err = r.from.Read(piece)
		r.held = bytes.ReplaceAll(append(r.held, piece[:n]...), []byte(value), []byte("[REDACTED:GITHUB_TOKEN]"))
		keep := 0
		for k := min(len(value)-1, len(r.held)); k > 0 && r.err == nil; k-- {
			if bytes.HasSuffix(r.held, []byte(value[:k])) {
				keep = k
				break
			}
		}
		r.out = append(r.out, r.held[:len(r.held)-keep]...)
		r.held = append([]byte(nil), r.held[len(r.held)-keep:]...)
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *redactor) Close() error { return r.from.Close() }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// tlsClient speaks TLS to the gateway as a client in a room.
func tlsClient(t testing.TB, conn net.Conn, l *lab, protocols ...string) net.Conn {
	t.Helper()
	secured := tls.Client(conn, l.trust(protocols...))
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secured
}

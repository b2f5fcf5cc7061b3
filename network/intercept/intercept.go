// Package intercept opens HTTP and TLS for the hosts whose requests have to be read: it decides about
// each request, puts the values of secrets in the place of their placeholders, and takes them out of
// the answers.
package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
)

const (
	// maxRequestHead and maxResponseHead bound the heads of requests and answers. Servers accept
	// 8 to 64 KiB.
	maxRequestHead  = 64 << 10
	maxResponseHead = 256 << 10
	// maxStreams bounds the requests of one connection that are open at once. Browsers and gRPC
	// expect a hundred.
	maxStreams = 100
	// maxUpstream bounds the connections to a server without HTTP/2, where each of those requests
	// needs its own. Browsers open as many to a host.
	maxUpstream = 6
	// The windows of HTTP/2 bound what is held for a reader that does not read, and with the delay
	// to the server they bound the speed: 10 MiB/s at 50 ms.
	streamWindow     = 512 << 10
	connectionWindow = 1 << 20
	maxFrame         = 64 << 10
	// headTimeout is how long a handshake and the head of a request may take.
	headTimeout = 30 * time.Second
	// continueTimeout is how long a body waits for the server's 100 Continue: as long as curl waits.
	continueTimeout = time.Second
	// keepAlive is how long a connection waits for the next request.
	keepAlive = 2 * time.Minute
	// pingAfter finds HTTP/2 servers that are gone: after sleep, or when a VPN has ended.
	pingAfter = time.Minute
)

// Options describe one connection that is opened.
type Options struct {
	// Name is the host that the connection is for: lower case, without a trailing dot, or an
	// address.
	Name string
	Port uint16
	// TLS is whether both sides speak TLS. It needs an Authority.
	TLS       bool
	Authority *Authority
	// Dial connects to the upstream address, which the caller has checked. It may be called
	// several times.
	Dial func(context.Context) (net.Conn, error)
	// Authorize decides about a request. It may wait for a person. It is called for each way in
	// which a server may read the method and the path, and all have to be allowed.
	Authorize func(ctx context.Context, method, path string) policy.Decision
	// Refused is called for each request that is not sent. It must not block. It may be nil.
	Refused func(method, path string, d policy.Decision)
	// Credentials are bound to this host. Foreign ones are the agent's others; only their Secret,
	// Placeholder and Hosts are used, to refuse their placeholders here.
	Credentials []Credential
	Foreign     []Credential
	// Cleartext lets values be sent without TLS, since the server is this computer.
	Cleartext bool
	// Redact takes values of secrets out of a stream. It is needed with Credentials. It must not
	// hold back bytes for longer than a moment, or programs that talk in turns stand still.
	Redact func(io.ReadCloser) io.ReadCloser
	// Roots verify the server's certificate. Nil is those of this computer.
	Roots *x509.CertPool
	Agent config.AgentName // for advice
	Log   *slog.Logger
}

// Serve answers the requests of a client until its connection or the context ends. It closes the connection. It
// returns an error if the options are incomplete or the TLS handshake fails.
func Serve(ctx context.Context, client net.Conn, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := watch(ctx, client)
	defer watched.Close()
	if err := o.check(); err != nil {
		return err
	}
	var conn net.Conn = watched
	if o.TLS {
		secured, err := o.handshake(ctx, watched)
		if err != nil {
			return err
		}
		conn = secured
	}
	p := &proxy{Options: o, ctx: ctx, slots: make(chan struct{}, maxStreams)}
	_ = p.server().Serve(&listener{conn: conn, closed: watched.closed}) // ends with net.ErrClosed
	cancel()
	for range cap(p.slots) { // wait for the requests that still run
		p.slots <- struct{}{}
	}
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	return nil
}

func (o *Options) check() error {
	switch {
	case o.Name == "" || o.Dial == nil || o.Authorize == nil || o.Log == nil:
		return fault.Newf(fault.InvalidArgs, "open a connection", o.Name, "name, dialer, decision or log is missing")
	case o.TLS && o.Authority == nil:
		return fault.Newf(fault.InvalidArgs, "open TLS", o.Name, "there is no certificate authority")
	case len(o.Credentials) > 0 && o.Redact == nil:
		return fault.Newf(fault.InvalidArgs, "open a connection", o.Name, "nothing takes the values of secrets out of answers")
	}
	return nil
}

// handshake answers a client's TLS handshake for the name. Another server name gets the alert
// unrecognized_name.
func (o *Options) handshake(ctx context.Context, client net.Conn) (*tls.Conn, error) {
	const op = "open TLS"
	leaf, err := o.Authority.leaf(o.Name)
	if err != nil {
		return nil, fault.Wrap(op, o.Name, err)
	}
	asked := ""
	conn := tls.Server(client, &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // each connection has its own keys
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if asked = hello.ServerName; asked != "" && canonicalHost(asked) != o.Name {
				return nil, nil
			}
			return leaf, nil
		},
	})
	deadline, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	if err := conn.HandshakeContext(deadline); err != nil {
		e := fault.New(fault.Rejected, op, o.Name, err)
		remote, ok := errors.AsType[*net.OpError](err)
		switch {
		case asked != "" && canonicalHost(asked) != o.Name:
			return nil, fault.Newf(fault.Rejected, op, o.Name, "the program asked for the server name %q", clip(asked))
		case ok && remote.Op == "remote error" || errors.Is(err, io.EOF):
			return nil, e.Advise("The program may not trust the sandbox's certificate: it has a trust store of its own.")
		}
		return nil, e
	}
	return conn, nil
}

// proxy serves the requests of one connection.
type proxy struct {
	Options
	ctx   context.Context // of the connection
	slots chan struct{}   // one for each running request

	once      sync.Once
	transport *http.Transport
}

func (p *proxy) server() *http.Server {
	s := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    maxRequestHead,
		BaseContext:       func(net.Listener) context.Context { return p.ctx },
		ErrorLog:          slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: connectionWindow, MaxReceiveBufferPerStream: streamWindow,
		},
		// "OPTIONS *" is decided like all others.
		DisableGeneralOptionsHandler: true,
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(p.TLS)
	s.Protocols.SetUnencryptedHTTP2(!p.TLS)
	return s
}

// upstream returns the transport. The client's first request chooses the version of HTTP, so that
// gRPC stays HTTP/2 and WebSockets stay HTTP/1.1.
func (p *proxy) upstream(major int) *http.Transport {
	p.once.Do(func() {
		t := &http.Transport{
			DialContext:            p.dial,
			TLSClientConfig:        &tls.Config{ServerName: p.Name, RootCAs: p.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    headTimeout,
			ExpectContinueTimeout:  continueTimeout,
			IdleConnTimeout:        keepAlive,
			MaxConnsPerHost:        maxUpstream,
			DisableCompression:     p.Redact == nil, // then the client decides
			MaxResponseHeaderBytes: maxResponseHead,
			Protocols:              new(http.Protocols),
			HTTP2: &http.HTTP2Config{
				MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: connectionWindow,
				MaxReceiveBufferPerStream: streamWindow, SendPingTimeout: pingAfter,
			},
		}
		t.Protocols.SetHTTP1(p.TLS || major == 1)
		t.Protocols.SetHTTP2(p.TLS && major == 2)
		t.Protocols.SetUnencryptedHTTP2(!p.TLS && major == 2)
		p.transport = t
	})
	return p.transport
}

// dial connects to the upstream address. The connection ends with the client's, not with the request that needed it
// first: the transport may keep it open.
func (p *proxy) dial(context.Context, string, string) (net.Conn, error) {
	conn, err := p.Dial(p.ctx)
	if err != nil {
		return nil, err
	}
	return watch(p.ctx, conn), nil
}

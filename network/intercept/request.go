package intercept

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/network/policy"
)

const (
	// maxText bounds what is shown of a request's method, path and host.
	maxText = 256
	// maxMethods bounds the methods of a request: its own, and those that
	// override it.
	maxMethods = 4
)

// exchange is one request with its answer.
type exchange struct {
	*proxy
	method, path string // for texts
}

// ServeHTTP decides about a request and passes it on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-r.Context().Done():
		return
	}
	x := &exchange{proxy: p, method: clip(r.Method), path: clip(r.URL.EscapedPath())}
	out := &response{ResponseWriter: w, exchange: x}
	if refused := x.admit(r); refused != nil {
		x.refuse(out, r, refused)
		return
	}
	// HTTP/1.1 lets a server answer before it has read the body. The server of HTTP/2 does so anyway.
	_ = http.NewResponseController(w).EnableFullDuplex()
	forward := &httputil.ReverseProxy{
		Transport:      p.upstream(r.ProtoMajor),
		Rewrite:        x.rewrite,
		FlushInterval:  -1, // at once
		ModifyResponse: x.answer,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { x.fail(out, r, err) },
		ErrorLog:       slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	forward.ServeHTTP(out, r)
	x.redactHeader(out.Header()) // trailers
}

// admit checks a request and puts the values of secrets into it.
func (x *exchange) admit(r *http.Request) *refusal {
	if refused := x.checkTarget(r); refused != nil {
		return refused
	}
	names := methods(r)
	if len(names) > maxMethods {
		return &refusal{status: http.StatusForbidden, reason: "it overrides its method too often"}
	}
	for _, method := range names {
		for _, path := range paths(r.URL) {
			if d := x.Authorize(r.Context(), method, path); d.Action != policy.Allow {
				return x.denied(d, method, path)
			}
		}
	}
	dropHeaders(r.Header, x.Redact != nil)
	return x.credentials(r)
}

// checkTarget checks that a request is for the host that the connection is for.
func (x *exchange) checkTarget(r *http.Request) *refusal {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), ""
	}
	scheme := strings.ToLower(r.URL.Scheme)
	switch {
	case r.Method == http.MethodConnect:
		return &refusal{status: http.StatusForbidden, reason: "the gateway is not a proxy; connect to the host itself"}
	case !strings.HasPrefix(r.URL.Path, "/"):
		return &refusal{status: http.StatusForbidden, reason: "its target is not a path"}
	case r.Method == http.MethodTrace && len(x.Credentials) > 0:
		return &refusal{status: http.StatusForbidden, reason: "TRACE would show the values of secrets"}
	case r.Host == "" && !r.ProtoAtLeast(1, 1): // HTTP/1.0 need not name a host
	case canonicalHost(host) != x.Name || port != "" && port != strconv.Itoa(int(x.Port)):
		return &refusal{
			status: http.StatusMisdirectedRequest, // clients that share connections try a new one
			reason: fmt.Sprintf("this connection is for %s, and the request is for %s", x.authority(), clip(r.Host)),
		}
	}
	if scheme != "" && scheme != x.scheme() {
		return &refusal{status: http.StatusMisdirectedRequest, reason: "this connection speaks " + x.scheme() + ", and the request is for " + clip(scheme)}
	}
	return nil
}

func (p *proxy) scheme() string {
	if p.TLS {
		return "https"
	}
	return "http"
}

// authority returns the host with its port, unless that is the scheme's.
func (p *proxy) authority() string {
	if p.TLS && p.Port == 443 || !p.TLS && p.Port == 80 {
		if strings.Contains(p.Name, ":") {
			return "[" + p.Name + "]"
		}
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Port)))
}

// dropHeaders removes what could change the meaning of a request after it is decided, and with
// redact what could hide values in its answer.
func dropHeaders(h http.Header, redact bool) {
	// IIS and Symfony replace the path by these.
	h.Del("X-Original-Url")
	h.Del("X-Rewrite-Url")
	// After an upgrade to another HTTP, requests would pass unread. Clients go on without it.
	if kind := strings.ToLower(strings.Join(h["Upgrade"], ",")); strings.Contains(kind, "h2") || strings.Contains(kind, "http") || strings.Contains(kind, "tls") {
		h.Del("Upgrade")
		h.Del("Http2-Settings")
	}
	if redact {
		h.Del("Accept-Encoding")          // the transport asks for gzip, and unpacks it
		h.Del("Sec-Websocket-Extensions") // compression
		h.Del("Range")                    // parts of a value
		h.Del("If-Range")
	}
}

// rewrite directs a request to the server.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = x.scheme(), net.JoinHostPort(x.Name, strconv.Itoa(int(x.Port)))
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.URL.User = nil
	r.Out.Host = x.authority()
	if _, port, err := net.SplitHostPort(r.In.Host); err == nil && port != "" {
		r.Out.Host = r.Out.URL.Host // signatures cover the form that the client chose
	} else if r.In.Host != "" {
		r.Out.Host = strings.TrimSuffix(r.In.Host, ".")
	}
	r.Out.Trailer = nil // it comes too late to be checked
}

// clip makes a text from outside safe to show.
func clip(text string) string {
	return printable.Text(printable.Line(printable.First(text, 4*maxText), maxText))
}

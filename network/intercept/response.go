package intercept

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// response notes the status of an answer. It takes values out of early answers (1xx), which come
// without ModifyResponse.
type response struct {
	http.ResponseWriter
	exchange *exchange
	status   int
}

// Unwrap gives http.ResponseController the rest of the interface.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		r.exchange.redactHeader(r.Header())
	} else if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// answer prepares the server's answer for the client.
func (x *exchange) answer(res *http.Response) error {
	res.Header.Del("Alt-Svc") // it leads to QUIC, which cannot be opened
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.record.Status = res.StatusCode
		x.redactHeader(res.Header)
		if both, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = x.tunnel(both)
		}
		return nil
	}
	if x.Redact != nil {
		if err := x.redactBody(res); err != nil {
			return err
		}
		x.redactHeader(res.Header)
	}
	res.Body = counted(res.Body, &x.received)
	return nil
}

// redactBody takes values out of the body of an answer.
func (x *exchange) redactBody(res *http.Response) error {
	if res.Body == http.NoBody || res.Request.Method == http.MethodHead {
		return nil
	}
	switch encoding := strings.ToLower(strings.Join(res.Header["Content-Encoding"], ",")); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		res.Body = &gunzip{body: res.Body}
		res.Header.Del("Content-Encoding")
	default:
		return &refusal{
			status: http.StatusBadGateway,
			reason: "the server compressed its answer (" + clip(encoding) + ") although it was asked not to, so it cannot be searched for secrets",
		}
	}
	res.Body = x.Redact(res.Body)
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	return nil
}

// redactHeader takes values out of headers. It searches them as one text.
func (x *exchange) redactHeader(h http.Header) {
	if x.Redact == nil || len(h) == 0 {
		return
	}
	var values []string
	keys := slices.Collect(maps.Keys(h))
	for _, key := range keys {
		values = append(values, h[key]...)
	}
	before := strings.Join(values, "\n")
	after := x.redactText(before)
	if after == before {
		return
	}
	clean := strings.Split(after, "\n")
	if len(clean) != len(values) {
		clear(h) // not what Redact may do; lose the headers rather than a value
		return
	}
	for _, key := range keys {
		n := len(h[key])
		h[key], clean = slices.Clone(clean[:n]), clean[n:]
	}
}

// redactText takes values out of a short text.
func (x *exchange) redactText(text string) string {
	if x.Redact == nil {
		return text
	}
	r := x.Redact(io.NopCloser(strings.NewReader(text)))
	defer r.Close()
	clean, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	return string(clean)
}

// tunnel counts and redacts what passes after an upgrade. A WebSocket frame from which a value is
// taken has a wrong length, which ends the connection.
func (x *exchange) tunnel(both io.ReadWriteCloser) io.ReadWriteCloser {
	var from io.ReadCloser = both
	if x.Redact != nil {
		from = x.Redact(both)
	}
	return &tunnel{counted(from, &x.received), both, x}
}

type tunnel struct {
	io.ReadCloser
	to io.Writer
	x  *exchange
}

func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.to.Write(p)
	t.x.sent.Add(int64(n))
	return n, err
}

func (t *tunnel) CloseWrite() error { return closeWrite(t.to) }

// gunzip decompresses a body. It reads nothing before the first Read.
type gunzip struct {
	body io.ReadCloser
	from *gzip.Reader
	err  error
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.from == nil && g.err == nil {
		g.from, g.err = gzip.NewReader(g.body)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.from.Read(p)
}

func (g *gunzip) Close() error { return g.body.Close() }

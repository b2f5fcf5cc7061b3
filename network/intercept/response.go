package intercept

import (
	"io"
	"net/http"
	"strings"

	"osaurus-sandbox/network/hello"
)

// response takes values out of early answers (1xx), which come without ModifyResponse.
type response struct {
	http.ResponseWriter
	exchange *exchange
}

// Unwrap gives http.ResponseController the rest of the interface.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	if status == http.StatusContinue {
		return // http.Server sends its own as soon as the body is read
	}
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		r.exchange.redactHeader(r.Header())
	}
	r.ResponseWriter.WriteHeader(status)
}

// answer prepares the server's answer for the client.
func (x *exchange) answer(res *http.Response) error {
	res.Header.Del("Alt-Svc") // it leads to QUIC, which cannot be opened
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.redactHeader(res.Header)
		res.Status = "" // its text may have values
		if both, ok := res.Body.(io.ReadWriteCloser); ok && x.Redact != nil {
			res.Body = &tunnel{x.Redact(both), both}
		}
		return nil
	}
	if x.Redact != nil {
		if err := x.redactBody(res); err != nil {
			return err
		}
		x.redactHeader(res.Header)
	}
	return nil
}

// redactBody takes values out of the body of an answer.
func (x *exchange) redactBody(res *http.Response) error {
	if res.Body == http.NoBody || res.Request.Method == http.MethodHead {
		return nil
	}
	switch encoding := strings.ToLower(strings.Join(res.Header["Content-Encoding"], ",")); encoding {
	case "", "identity":
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

// redactHeader takes values out of headers.
func (x *exchange) redactHeader(h http.Header) {
	for _, values := range h {
		for i, text := range values {
			values[i] = x.redactText(text)
		}
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

// tunnel takes values out of what comes back after an upgrade. A WebSocket frame from which one is
// taken has a wrong length, which ends the connection.
type tunnel struct {
	io.ReadCloser
	io.Writer
}

func (t *tunnel) CloseWrite() error { return hello.CloseWrite(t.Writer) }

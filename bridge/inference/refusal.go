package inference

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/secrets"
)

const (
	// maxRefusal bounds how much of a refusal is read, and maxSaid how much of it the caller sees.
	maxRefusal = 64 << 10
	maxSaid    = 500
	// soon is the retry delay if the endpoint names none. maxWait bounds the delay that it may
	// name.
	soon    = 10 * time.Second
	maxWait = 24 * time.Hour
)

// refusal returns the error for an endpoint's status. It hides the text of errors about the key,
// since endpoints quote parts of it.
func (a *answer) refusal(reply *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxRefusal))
	if err != nil {
		return a.broken("it broke off")
	}
	kind, why, advice := fault.Execution, a.said(text), ""
	switch status := reply.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return a.unavailable("the endpoint does not accept the host's key")
	case status == http.StatusTooManyRequests:
		return fault.New(fault.Rejected, op, string(a.model), &bridge.Limited{Why: "the endpoint", After: after(reply.Header)}).Advise("Wait, and ask less often.")
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity:
		kind = fault.InvalidArgs
	case status == http.StatusNotFound:
		kind, advice = fault.NotFound, "See whether the endpoint has this model."
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		kind = fault.Timeout
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable:
		kind, advice = fault.Unavailable, "Try again in a moment."
	}
	if why == "" {
		why = fmt.Sprintf("the endpoint answers with status %d", reply.StatusCode)
	}
	return fault.New(kind, op, string(a.model), errors.New(why)).Advise(advice)
}

// unreachable returns the error for a failed request. It omits the cause, which may contain a
// proxy's password.
func (a *answer) unreachable(err error) error {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return fault.Newf(fault.Timeout, op, string(a.model), "the endpoint does not answer")
	}
	return a.unavailable("the endpoint cannot be reached")
}

// unavailable returns an error that only a person can fix.
func (a *answer) unavailable(why string) error {
	return fault.New(fault.Unavailable, op, string(a.model), errors.New(why)).
		Advise("A person can fix it: check the settings inference.baseURL and inference.model, or run: osaurus-sandbox secret set @host " + string(secrets.Inference().Name))
}

// said returns the endpoint's error message on one line and without the key, or "".
func (a *answer) said(text []byte) string {
	var r struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &r) != nil {
		return ""
	}
	var full struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(r.Error, &full) != nil && json.Unmarshal(r.Error, &full.Message) != nil {
		return ""
	}
	said := full.Message
	if key := a.key.Reveal(); key != "" {
		said = strings.ReplaceAll(said, key, secrets.Redacted)
	}
	said = strings.Join(strings.FieldsFunc(said, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	return printable.Chars(said, maxSaid)
}

// after returns the delay from the header Retry-After, within limits.
func after(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return soon
	}
	return time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second
}

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
	// maxRefusal is what is read of a refusal, and maxSaid what is told of it.
	maxRefusal = 64 << 10
	maxSaid    = 500
	// soon is when to try again where the endpoint does not say, and maxWait the
	// most that it is believed.
	soon    = 10 * time.Second
	maxWait = 24 * time.Hour
)

// refusal is the error that an endpoint's answer stands for. What it says of the
// key is not for who asked: endpoints quote parts of it.
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

// unreachable is the error where there is no answer. Its cause may name what
// only the host may know: proxies with their passwords.
func (a *answer) unreachable(err error) error {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return fault.Newf(fault.Timeout, op, string(a.model), "the endpoint does not answer")
	}
	return a.unavailable("the endpoint cannot be reached")
}

// unavailable is the error for what a person must mend.
func (a *answer) unavailable(why string) error {
	return fault.New(fault.Unavailable, op, string(a.model), errors.New(why)).
		Advise("A person sees to it: the settings inference.baseURL and inference.model, and osaurus-sandbox secret set @host " + string(secrets.Inference().Name))
}

// said is what an endpoint gives as the reason, on one line, without the key,
// or "".
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

// after is when an endpoint wants to be asked again.
func after(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return soon
	}
	return time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second
}

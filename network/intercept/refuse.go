package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
)

// refusal says why the gateway does not send a request.
type refusal struct {
	status    int
	reason    string
	rule      *config.NetworkRule
	advice    string // the command that changes it
	challenge bool   // the client should send its password
}

func (r *refusal) Error() string { return r.reason }

// denied is the refusal of a request by the policy.
func (x *exchange) denied(d policy.Decision, method, path string) *refusal {
	r := &refusal{status: http.StatusForbidden, reason: d.Reason, rule: d.Rule, advice: strings.Replace(d.Advice, " NAME ", " "+x.agent()+" ", 1)}
	if r.reason == "" {
		r.reason = fmt.Sprintf("the network policy does not allow %s %s", clip(method), clip(path))
	}
	return r
}

// agent returns the agent's name for advice.
func (p *proxy) agent() string { return cmp.Or(string(p.Agent), "NAME") }

// refuse answers a request that is not sent.
func (x *exchange) refuse(w http.ResponseWriter, r *http.Request, why *refusal) {
	reason := clip(why.reason)
	var b strings.Builder
	fmt.Fprintf(&b, "The sandbox's network gateway refused this request.\n\nrequest: %s %s://%s%s\nreason:  %s\n",
		x.method, x.scheme(), x.authority(), x.path, reason)
	if why.rule != nil {
		fmt.Fprintf(&b, "rule:    %s\n", clip(why.rule.String()))
	}
	if why.advice != "" {
		fmt.Fprintf(&b, "change:  %s\n", why.advice)
	}
	if why.challenge {
		w.Header().Set("Www-Authenticate", `Basic realm="osaurus-sandbox: the password is a placeholder"`)
	}
	if x.Refused != nil {
		x.Refused(x.method, x.path, policy.Decision{Action: policy.Deny, Reason: reason, Rule: why.rule, Advice: why.advice})
	}
	page(w, r, why.status, grpcPermissionDenied, b.String())
}

// fail answers a request whose server could not be reached, or whose answer cannot be passed on.
func (x *exchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	if why, ok := errors.AsType[*refusal](err); ok {
		x.refuse(w, r, why)
		return
	}
	text := clip(x.redactText(err.Error()))
	if errors.Is(err, context.Canceled) { // the client has left
		panic(http.ErrAbortHandler)
	}
	status := http.StatusBadGateway
	if fault.KindOf(err) == fault.Timeout {
		status = http.StatusGatewayTimeout
	}
	what := "cannot reach"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		what = "does not trust the certificate of"
	}
	text = fmt.Sprintf("The sandbox's network gateway %s %s://%s: %s\n", what, x.scheme(), x.authority(), text)
	if advice := fault.AdviceOf(err); advice != "" {
		text += advice + "\n"
	}
	page(w, r, status, grpcUnavailable, text)
}

// Status codes of gRPC.
const (
	grpcPermissionDenied = "7"
	grpcUnavailable      = "14"
)

// page answers with a text. A gRPC client gets it as the status of its call.
func page(w http.ResponseWriter, r *http.Request, status int, grpcStatus, text string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", grpcStatus)
		h.Set("Grpc-Message", url.PathEscape(text))
		w.WriteHeader(http.StatusOK)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // fails if the client has left
}

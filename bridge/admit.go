package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// ServeHTTP lets a request in: first what is too much for anybody, then who
// asks, then what for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, server: s}
	if r.Body != http.NoBody {
		c.deadline(bodyLimit) // also for what is thrown away unread
	}
	if len(r.TransferEncoding) > 0 {
		// Whoever sends a second length with it has nothing after it read.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor != 1:
		c.refuse(http.StatusHTTPVersionNotSupported, fault.New(fault.InvalidArgs, "read request", r.Proto, nil).Advise("Speak HTTP/1.1."))
		return
	case r.ContentLength > wire.MaxBody:
		c.tooLarge()
		return
	}
	peer := r.Context().Value(peerKey{}).(Peer)
	uid := peer.UID()
	pass, ok := s.Tokens.find(bearer(r.Header), uid)
	if !ok {
		c.stranger()
		return
	}
	c.who, c.pass = Caller{Agent: pass.Agent, Name: pass.Name, User: pass.User}, pass.life
	c.plugin(peer.Plugin())
	c.account = s.accounts.of(uid)
	if err := c.account.enter(); err != nil {
		c.fail(err)
		return
	}
	defer c.account.leave()

	ctx, cancel := context.WithTimeout(r.Context(), RequestLimit)
	defer cancel()
	defer context.AfterFunc(pass.life, cancel)()
	c.r = r.WithContext(ctx)
	release, err := c.read()
	defer release()
	if errors.Is(err, errTooLarge) {
		c.tooLarge()
		return
	}
	if err == nil {
		err = c.pass.Err() // it may have been long under way
	}
	if err == nil {
		err = c.present(peer.Plugin())
	}
	if err == nil {
		err = c.route()
	}
	if err != nil {
		c.fail(err)
	}
}

// bearer is the token that is shown, if exactly one is.
func bearer(h http.Header) string {
	values := h.Values(wire.HeaderAuthorization)
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// stranger answers whoever is nobody's agent, for whatever reason, with one
// text. What it sends is counted, so that too much is too much for
// strangers too, and not kept.
func (c *call) stranger() {
	if c.r.ContentLength < 0 {
		if n, _ := io.Copy(io.Discard, io.LimitReader(c.r.Body, wire.MaxBody+1)); n > wire.MaxBody {
			c.tooLarge()
			return
		}
	}
	c.w.Header().Set("WWW-Authenticate", "Bearer")
	c.refuse(http.StatusUnauthorized, fault.Newf(fault.Rejected, "check token", "", "no token, or not one that counts here").
		Advise("Send the header Authorization: Bearer TOKEN, with what is in /run/osaurus/USER.token, as that user."))
}

var errTooLarge = errors.New("too large")

func (c *call) tooLarge() {
	c.w.Header().Set("Connection", "close")
	c.refuse(http.StatusRequestEntityTooLarge, fault.Newf(fault.Rejected, "read body", "", "it is larger than %d bytes", wire.MaxBody).Advise("Send less at a time; files are handed over in the workspace."))
}

// read takes the body into memory. What it holds of the account for a large
// one is given back by release.
func (c *call) read() (release func(), err error) {
	release = func() {}
	if c.r.Body == http.NoBody {
		return release, nil
	}
	body := http.MaxBytesReader(nil, c.r.Body, wire.MaxBody)
	c.body, err = io.ReadAll(io.LimitReader(body, smallBody))
	if err == nil && len(c.body) == smallBody {
		select {
		case c.account.large <- struct{}{}:
			release = func() { <-c.account.large }
			c.deadline(bodyLimit) // which has waited for us
		case <-c.r.Context().Done():
			return release, context.Cause(c.r.Context())
		case <-time.After(bodyLimit):
			return release, limited(fmt.Sprintf("%d large bodies at a time", largeBodies), time.Second)
		}
		var rest []byte
		rest, err = io.ReadAll(body)
		c.body = append(c.body, rest...)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return release, errTooLarge
	}
	if err != nil {
		c.w.Header().Set("Connection", "close") // the rest is not worth waiting for
		return release, fault.New(fault.InvalidArgs, "read body", "", err)
	}
	c.deadline(0) // it would end the request, which may take longer
	return release, nil
}

// deadline is how long reading may take from now on; 0 is for ever.
func (c *call) deadline(limit time.Duration) {
	at := time.Time{}
	if limit > 0 {
		at = time.Now().Add(limit)
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(at) // a connection that has ended needs none
}

// route does what the path and the method say.
func (c *call) route() error {
	r, name, err := find(c.server.routes, c.r.URL)
	if err != nil {
		return err
	}
	do := r.methods[c.r.Method]
	if do == nil {
		c.w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(r.methods)), ", "))
		c.refuse(http.StatusMethodNotAllowed, fault.New(fault.InvalidArgs, "use method", brief(c.r.Method), nil).Advise("Use the one in the header Allow."))
		return nil
	}
	c.name = name
	return do(c)
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// ServeHTTP authenticates a request, checks its size, reads it and dispatches it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, server: s}
	if r.Body != http.NoBody {
		c.readDeadline(bodyTimeout) // net/http uses it too when it discards a refused body
	}
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close") // do not reuse the connection: the request may have two lengths
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
	t, ok := s.Tokens.find(bearer(r.Header), uid)
	if !ok {
		c.unauthorized()
		return
	}
	c.who, c.valid = Caller{Agent: t.Agent, Name: t.Name, User: t.User}, t.valid
	c.identifyPlugin(peer.Plugin())
	c.account = s.accounts.of(uid)
	if err := c.account.begin(); err != nil {
		c.fail(err)
		return
	}
	defer c.account.end()

	// After an answer has begun, a closed input only means that no more requests follow. If the
	// program has exited, the next write fails.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), RequestTimeout)
	defer cancel()
	defer context.AfterFunc(r.Context(), func() {
		if !c.answered.Load() {
			cancel()
		}
	})()
	defer context.AfterFunc(t.valid, cancel)()
	c.r = r.WithContext(ctx)
	release, err := c.readBody()
	defer release()
	if errors.Is(err, errTooLarge) {
		c.tooLarge()
		return
	}
	if err == nil {
		err = c.valid.Err() // the token may have been revoked while reading
	}
	if err == nil {
		err = c.checkInstalled(peer.Plugin())
	}
	if err == nil {
		err = c.dispatch()
	}
	if err != nil {
		c.fail(err)
	}
}

// bearer returns the request's token, if it has exactly one.
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

// unauthorized gives the same answer whatever is wrong with the token.
func (c *call) unauthorized() {
	c.w.Header().Set("WWW-Authenticate", "Bearer")
	if c.r.ContentLength < 0 {
		c.w.Header().Set("Connection", "close")
	}
	c.refuse(http.StatusUnauthorized, fault.Newf(fault.Rejected, "check token", "", "the token is missing or not valid for this user").
		Advise("As the agent's user, send the header Authorization: Bearer TOKEN with the contents of /run/osaurus/USER.token."))
}

var errTooLarge = errors.New("too large")

func (c *call) tooLarge() {
	c.w.Header().Set("Connection", "close")
	c.refuse(http.StatusRequestEntityTooLarge, fault.Newf(fault.Rejected, "read body", "", "larger than %d bytes", wire.MaxBody).
		Advise("Send less at a time; pass files through the workspace."))
}

// readBody reads the body into memory. A large one occupies a slot of the account until release.
func (c *call) readBody() (release func(), err error) {
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
			c.readDeadline(bodyTimeout) // the wait for a slot used some of it
		case <-c.r.Context().Done():
			return release, context.Cause(c.r.Context())
		case <-time.After(bodyTimeout):
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
		c.w.Header().Set("Connection", "close")
		return release, fault.New(fault.InvalidArgs, "read body", "", err)
	}
	c.readDeadline(0) // the old deadline would cancel the request
	return release, nil
}

// readDeadline limits how long reading may take from now on; 0 means no limit. It cannot fail on
// an open connection.
func (c *call) readDeadline(limit time.Duration) {
	at := time.Time{}
	if limit > 0 {
		at = time.Now().Add(limit)
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(at)
}

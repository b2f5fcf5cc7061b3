package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

const (
	// Path is the path of the endpoint.
	Path = "/mcp"

	// stateless is the first version of the protocol without sessions.
	stateless     = "2026-07-28"
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	// noBatches is the first version in which a POST has one request.
	noBatches = "2025-06-18"

	// maxRequest bounds a request, and allows what the control API does, in JSON.
	maxRequest = 2 << 20
	// sessionTimeout is when an idle session ends. A client that comes back opens
	// another.
	sessionTimeout = time.Hour
	// maxSessions bounds the sessions of older protocols: each has ten goroutines and a
	// connection to the daemon, and many clients never end theirs.
	maxSessions = 256
)

// Listener serves MCP over HTTP, to clients that have the token.
type Listener struct {
	options Options

	life *life
	open atomic.Int32 // sessions of older protocols

	sessions, requests http.Handler
	server             *http.Server
}

// Listen serves MCP on a loopback address until Close. Clients choose agent and profile by
// the URL: /mcp?agent=alice&profile=lean.
func Listen(home config.Home, at config.MCP, o Options) (*Listener, error) {
	const op = "listen for MCP"
	token, err := control.ReadToken(home, home.MCPToken())
	if err != nil {
		return nil, err
	}
	socket, err := control.ListenLimited(string(at.Listen))
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, string(at.Listen), err).Advise("Choose another port: osaurus-sandbox config set mcp.listen=127.0.0.1:PORT")
	}
	l := &Listener{options: o, life: newLife(context.Background())}
	guard := control.Guard{
		Token: token, TokenFile: "config/mcp-token", Hosts: control.LocalHosts(string(at.Listen)),
		OtherHost: "Call it by its address.", OtherOrigin: "A person allows it: osaurus-sandbox config set mcp.origins=ORIGIN", Refuse: refuse,
	}
	for _, origin := range at.Origins {
		guard.Origins = append(guard.Origins, string(origin))
	}
	l.sessions = mcp.NewStreamableHTTPHandler(l.openIn(&l.open), &mcp.StreamableHTTPOptions{SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxRequest})
	l.requests = mcp.NewStreamableHTTPHandler(l.openIn(nil), &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxRequest})
	l.server = guard.Server(l, o.Log)
	l.life.do(func() {
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("MCP can no longer be reached", "address", at.Listen, "error", err)
		}
	})
	return l, nil
}

// Close ends every session, and all calls.
func (l *Listener) Close() error {
	err := l.server.Close()
	l.life.end()
	return err
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, _ *http.Request, status int, err error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, err.Error()+". "+fault.AdviceOf(err), status)
}

// ServeHTTP serves admitted requests.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch _, err := l.wanted(r); {
	case r.URL.Path != Path:
		refuse(w, r, http.StatusNotFound, fault.Newf(fault.NotFound, "find", r.URL.Path, "nothing is there").Advise("MCP is at "+Path+"."))
	case err != nil:
		refuse(w, r, http.StatusBadRequest, err)
	case r.Header.Get(versionHeader) >= stateless:
		l.requests.ServeHTTP(w, r)
	case r.Header.Get(sessionHeader) == "" && l.open.Load() >= maxSessions:
		refuse(w, r, http.StatusServiceUnavailable, fault.Newf(fault.Unavailable, "open session", "", "%d are open", maxSessions).
			Advise("End some (DELETE), or wait: an idle one ends after "+sessionTimeout.String()+"."))
	default:
		l.sessions.ServeHTTP(w, r)
	}
}

// wanted returns the options for a request, with agent and profile of its URL.
func (l *Listener) wanted(r *http.Request) (Options, error) {
	o, query := l.options, r.URL.Query()
	o.Profile = tools.Full
	var err error
	if name := query.Get("agent"); name != "" {
		if o.Agent, err = config.NameAgent(name); err != nil {
			return o, err
		}
	}
	if profile := query.Get("profile"); profile != "" {
		o.Profile, err = ParseProfile(profile)
	}
	return o, err
}

// openIn returns a function that opens sessions. Open, if not nil, counts them.
func (l *Listener) openIn(open *atomic.Int32) func(*http.Request) *mcp.Server {
	return func(r *http.Request) *mcp.Server {
		o, err := l.wanted(r)
		if err != nil {
			return nil // ServeHTTP has answered
		}
		s := newSession(l.life, o)
		s.open = open
		return s.server
	}
}

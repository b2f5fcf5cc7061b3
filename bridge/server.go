// Package bridge serves the HTTP API for programs in agents' rooms. It identifies the agent by a token and by the program's Linux user.
package bridge

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"osaurus-sandbox/config"
)

const (
	// maxHeaders bounds a request's headers in bytes.
	maxHeaders    = 16 << 10
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
	// writeTimeout is how long a program may take to read an answer or a part of one.
	writeTimeout = 30 * time.Second
	// RequestTimeout is how long a request may take after it has been read. Large local models and package installs take minutes.
	RequestTimeout = 15 * time.Minute
	// drainTimeout is how long Close waits for requests.
	drainTimeout = 2 * time.Second
)

// Options configures a server.
type Options struct {
	Tokens *Tokens
	// Services may be set later, before Serve.
	Services Services
	// Limits returns the current limits; nil stands for the defaults.
	Limits func() config.BridgeLimits
	Audit  Audit
	Log    *slog.Logger
}

// Audit records calls in the audit log. Reads of secrets are recorded by Secrets.
type Audit interface {
	// Record records a call and its result. ctx may already have ended.
	Record(ctx context.Context, who Caller, action Action, subject string, err error)
}

// Action is a recorded kind of call.
type Action string

// The recorded actions.
const (
	DispatchTask Action = "task.dispatch"
	CreatePlugin Action = "plugin.create"
	CallTool     Action = "tool.call"
)

// Server serves the bridge. It keeps running when guests stop.
type Server struct {
	Options
	http     *http.Server
	routes   []route
	accounts accounts
}

// NewServer returns a server that does not listen yet.
func NewServer(o Options) *Server {
	if o.Limits == nil {
		o.Limits = func() config.BridgeLimits { return config.Defaults().Bridge }
	}
	s := &Server{Options: o, routes: allRoutes(), accounts: accounts{byUID: map[uint32]*account{}}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler: s, Protocols: protocols, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ConnContext: withPeer, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve serves a listener of Peers until it is closed.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close ends all requests and makes Serve return.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.http.Close()
}

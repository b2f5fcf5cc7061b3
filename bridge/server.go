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
	// maxHeaders is what a request's head may have: a token, a plugin, a path.
	maxHeaders = 16 << 10
	// headerLimit is how long a request's head may take to come, and bodyLimit
	// its body: 8 MiB come through a slow emulated guest in a few seconds.
	headerLimit = 10 * time.Second
	bodyLimit   = 30 * time.Second
	// idleLimit is how long a connection may be kept between two requests.
	idleLimit = 60 * time.Second
	// answerLimit is how long a program may take to read an answer, or a part.
	answerLimit = 30 * time.Second
	// RequestLimit is how long a request may take once it has come: a large local
	// model reads a long prompt for minutes, and so do packages install.
	RequestLimit = 15 * time.Minute
	// drain is how long requests under way have when the server is closed.
	drain = 2 * time.Second
)

// Options are what a server is made of.
type Options struct {
	Tokens *Tokens
	// Services may be set later, before Serve.
	Services Services
	// Limits are those that count by now; nil is those of whoever chose nothing.
	Limits func() config.BridgeLimits
	Audit  Audit
	Log    *slog.Logger
}

// Audit records what programs did that a person may ask about later. Who reads
// secrets is recorded by Secrets.
type Audit interface {
	// Record says that a caller asked for something, and how it ended: err is nil
	// if it was done. The caller may have left.
	Record(ctx context.Context, who Caller, action Action, subject string, err error)
}

// Action is what a caller asked for.
type Action string

// What is recorded.
const (
	DispatchTask Action = "task.dispatch"
	CreatePlugin Action = "plugin.create"
	CallTool     Action = "tool.call"
)

// Server answers what programs in guests ask. It outlives guests.
type Server struct {
	Options
	http     *http.Server
	routes   []route
	door     *door
	accounts accounts
}

// NewServer returns a server that listens to nobody yet.
func NewServer(o Options) *Server {
	if o.Limits == nil {
		o.Limits = func() config.BridgeLimits { return config.Defaults().Bridge }
	}
	s := &Server{Options: o, routes: routes(), door: newDoor(), accounts: accounts{byUID: map[uint32]*account{}}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler: s, Protocols: protocols, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit,
		ConnContext: withPeer, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers whoever comes to a listener until that is closed. What Accept
// returns must be a Peer; others are shut out.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(s.door.at(l))
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close ends every request, and Serve.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.http.Close()
}

package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/plugins/source"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/mounts"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/snapshots"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/tools"
)

// drain is how long calls may take to end when the daemon does. The sandbox has ended by
// then, so they wait for nothing.
const drain = 2 * time.Second

// Backing is what a Server gives access to.
type Backing struct {
	Sandbox  *machine.Machine
	Agents   *agents.Agents
	Sessions *sessions.Manager
	Memory   *services.Memory
	Tasks    *services.Tasks
	Topics   *services.Topics
	Lines    *services.Logs
	Vault    *vault.Vault
	Prompts  *prompts.Broker
	Policies *egress.Policies
	Flows    *egress.Flows
	// Lookup resolves names as the gateway does.
	Lookup    egress.Lookup
	Tools     *tools.Registry
	Plugins   *install.Installer
	Registrar *register.Registrar
	Library   *library.Library
	Sources   *source.Client
	Artifacts *artifacts.Artifacts
	Snapshots *snapshots.Snapshots
	// Checkpoints are what calls changed in agents' homes.
	Checkpoints *checkpoints.Checkpoints
	Mounts      *mounts.Mounts
	Events      *events.Journal
	Audit       *audit.Log
	Log         *slog.Logger
	// Program is this program's release and revision.
	Program string
	// Close ends the sandbox, for Quit, even if its context ends. It may be called more
	// than once.
	Close func(context.Context) error
}

// Server answers the control API.
type Server struct {
	Backing
	began    time.Time
	http     *http.Server
	handler  http.Handler
	unlink   func() error
	quit     chan struct{} // closed by Quit
	quitOnce sync.Once
	closing  chan struct{} // closed by Close: nobody follows any more
	running  sync.Map      // commands that can be signalled: engine.Process by id
	forwards sync.Map      // what Connect may connect to: forward by id
}

// NewServer returns a server that listens on the home's socket. The caller holds the
// home's lock.
func NewServer(b Backing) (*Server, error) {
	l, unlink, err := listen(b.Sandbox.Home())
	if err != nil {
		return nil, err
	}
	s := &Server{Backing: b, began: time.Now(), unlink: unlink, quit: make(chan struct{}), closing: make(chan struct{})}
	options := connect.WithHandlerOptions(handlerOptions(), connect.WithInterceptors(faultrpc.Interceptor()))
	rpc := http.NewServeMux()
	rpc.Handle(controlpbconnect.NewSandboxHandler(service{s}, options))
	rpc.Handle(controlpbconnect.NewAgentsHandler(agentService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewSnapshotsHandler(snapshotService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewShellsHandler(shellService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewJobsHandler(jobService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewFilesHandler(fileService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewPortsHandler(portService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewMemoryHandler(memoryService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewTasksHandler(taskService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewTopicsHandler(topicService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewSecretsHandler(secretService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewPromptsHandler(promptService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewNetworkHandler(networkService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewPluginsHandler(pluginService{service{s}}, options, withRecipes()))
	rpc.Handle(controlpbconnect.NewToolsHandler(toolService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewInstallsHandler(installService{service{s}}, options, withRecipes()))
	rpc.Handle(controlpbconnect.NewArtifactsHandler(artifactService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewBackupsHandler(backupService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewHistoryHandler(historyService{service{s}}, options))
	rpc.Handle(controlpbconnect.NewMountsHandler(mountService{service{s}}, options))
	s.handler = naming(jsonLines(rpc))
	s.http = &http.Server{
		Handler: s.handler, Protocols: protocols(), HTTP2: http2(),
		MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: headerTimeout,
		ConnContext: withPeer, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	s.http.RegisterOnShutdown(sync.OnceFunc(func() { close(s.closing) }))
	go s.serve(s.http, l)
	return s, nil
}

func (s *Server) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.Log.Error("the API can no longer be reached", "address", l.Addr(), "error", err)
	}
}

// Quitting is closed when a client has asked the daemon to end.
func (s *Server) Quitting() <-chan struct{} { return s.quit }

// Unlink removes the socket. Existing connections are still served.
func (s *Server) Unlink() error { return s.unlink() }

// Close ends all calls. Close the sandbox first, so that they end with the reason.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.http.Close()
}

// service implements the API. Its methods are in files by subject.
type service struct{ *Server }

// Hello introduces the daemon.
func (s service) Hello(_ context.Context, r *controlpb.HelloRequest) (*controlpb.HelloResponse, error) {
	version, err := negotiate(r.VersionMin, r.VersionMax, s.Program)
	if err != nil {
		return nil, err
	}
	return &controlpb.HelloResponse{
		Version: version, Program: s.Program, Pid: int32(os.Getpid()),
		Home: string(s.Sandbox.Home()), Started: moment(s.began),
	}, nil
}

// Quit ends the sandbox, answers, and ends the daemon.
func (s service) Quit(ctx context.Context, _ *controlpb.QuitRequest) (*controlpb.QuitResponse, error) {
	err := s.audited(ctx, note{action: "daemon.quit"}, func() error {
		return errors.Join(s.Unlink(), s.Backing.Close(ctx))
	})
	s.quitOnce.Do(func() { close(s.quit) })
	return &controlpb.QuitResponse{}, err
}

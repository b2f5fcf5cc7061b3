//go:build linux

// Package service is the guest's end of the guest protocol.
package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// System is the machine that the service speaks for.
type System interface {
	// Boot does what the host's first Hello asks. It is called once.
	Boot(*guestpb.HelloRequest) error
	// Info says how the machine is.
	Info() *guestpb.InfoResponse
	// SetTime sets the clock and returns how far it was ahead.
	SetTime(time.Time) (time.Duration, error)
	// PowerOff ends everything that runs and then the machine. It does not
	// return on a real machine.
	PowerOff(grace time.Duration)
}

// Service answers the host.
type Service struct {
	system  System
	keeper  *process.Manager
	rooms   *room.Manager // nil: there are none
	shells  *shell.Keeper
	jobs    *job.Keeper
	files   *files.Keeper
	rootLog func() (string, error) // makes the folder for the logs of root's jobs, once
	version string

	mu     sync.Mutex
	key    *protocol.Key // of the first Hello
	booted chan struct{} // closed when System.Boot has returned
	err    error         // what it returned

	running map[uint64]*process.Child // commands by id
	slots   slots
}

// New returns a service for a system. Commands are started by the keeper. Without a
// keeper of rooms there are none. Logs is a folder for what jobs of root write, where what an
// earlier boot left goes.
func New(system System, keeper *process.Manager, rooms *room.Manager, logs, version string) *Service {
	s := &Service{
		system: system, keeper: keeper, rooms: rooms, version: version, booted: make(chan struct{}),
		running: map[uint64]*process.Child{},
	}
	s.shells = shell.NewKeeper(shell.Options{Processes: keeper, Find: s.shellRoom})
	s.jobs = job.NewKeeper(job.Options{Processes: keeper, Find: s.jobRoom})
	s.rootLog = sync.OnceValues(func() (string, error) {
		return logs, errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o700))
	})
	s.files = files.NewKeeper(files.Options{Processes: keeper, Find: s.fileRoom})
	return s
}

// Close ends shells and jobs.
func (s *Service) Close() {
	s.shells.Close()
	s.jobs.Close()
}

// leave ends the shells and jobs of a user, and the worker for their files. It waits for none that
// waits for a share: the room that they are in says so.
func (s *Service) leave(user string) {
	var all sync.WaitGroup
	for _, forget := range []func(string){s.shells.Forget, s.jobs.Forget, s.files.Forget} {
		all.Go(func() { forget(user) })
	}
	left := make(chan struct{})
	go func() { defer close(left); all.Wait() }()
	select {
	case <-left:
	case <-time.After(leaveWithin):
	}
}

// leaveWithin is more than killed shells and jobs take on a busy guest to say what they had left to say.
const leaveWithin = 10 * time.Second

// Serve answers connections of a listener until that is closed. Connections
// that are open then stay: the last answer of a machine goes over one.
func (s *Service) Serve(l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(s, options()...))
	mux.Handle(guestpbconnect.NewRoomsHandler(rooms{s.rooms, s.leave}, options()...))
	ServeTerminals(mux, s.shells, s.jobs)
	server := &http.Server{
		Handler: s.guard(mux), Protocols: protocol.Protocols(), HTTP2: protocol.HTTP2(), MaxHeaderBytes: protocol.MaxHeaders,
	}
	return server.Serve(l)
}

// ServeTerminals registers the services Shells and Jobs.
func ServeTerminals(mux *http.ServeMux, s *shell.Keeper, j *job.Keeper) {
	mux.Handle(guestpbconnect.NewShellsHandler(shells{s}, options()...))
	mux.Handle(guestpbconnect.NewJobsHandler(j, options()...))
}

func options() []connect.HandlerOption {
	return []connect.HandlerOption{protocol.HandlerOptions(), connect.WithInterceptors(faultrpc.Interceptor())}
}

// guard lets Hello pass, and any other call once the machine has booted, if it
// carries the key.
func (s *Service) guard(next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != guestpbconnect.GuestHelloProcedure {
			key, err := protocol.ParseKeyHeader(r.Header.Get(protocol.KeyHeader))
			if err == nil {
				err = s.admit(key)
			}
			if err != nil {
				_ = refuse.Write(w, r, faultrpc.Encode(err))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// admit checks a key, and that the machine has booted.
func (s *Service) admit(got protocol.Key) error {
	const op = "check boot key"
	s.mu.Lock()
	want := s.key
	s.mu.Unlock()
	if want == nil {
		return fault.Newf(fault.Unavailable, op, "", "the host has not said hello")
	}
	if !got.Equal(*want) {
		return fault.Newf(fault.Rejected, op, "", "it is not the key of this boot")
	}
	select {
	case <-s.booted:
		return s.err
	default:
		return fault.Newf(fault.Unavailable, "check boot", "", "the guest is not ready yet")
	}
}

// Hello is the first call of the protocol.
func (s *Service) Hello(ctx context.Context, r *guestpb.HelloRequest) (*guestpb.HelloResponse, error) {
	version, err := protocol.Negotiate(r.VersionMin, r.VersionMax)
	if err != nil {
		return nil, err
	}
	key, err := protocol.ParseKey(r.Key)
	if err != nil {
		return nil, err
	}
	if err := protocol.CheckBoot(r.Boot); err != nil {
		return nil, err
	}
	if n := len(r.Entropy); n > protocol.MaxEntropy {
		return nil, fault.Newf(fault.InvalidArgs, "take entropy", "", "%d bytes are more than %d", n, protocol.MaxEntropy)
	}
	if err := s.greet(key, r); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.booted:
	}
	if s.err != nil {
		return nil, s.err
	}
	return &guestpb.HelloResponse{Version: version, GuestVersion: s.version}, nil
}

// greet takes the first key that comes, and no other after it.
func (s *Service) greet(key protocol.Key, hello *guestpb.HelloRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		if !s.key.Equal(key) {
			return fault.Newf(fault.Rejected, "greet", "", "another host has said hello in this boot").
				Advise("A guest listens to one host: stop the machine and start it anew.")
		}
		return nil
	}
	s.key = &key
	// Not bound to the call: a host that lost its connection asks again.
	go func() {
		s.err = s.system.Boot(hello)
		close(s.booted)
	}()
	return nil
}

// Ping answers.
func (s *Service) Ping(context.Context, *guestpb.PingRequest) (*guestpb.PingResponse, error) {
	return &guestpb.PingResponse{}, nil
}

// Info says how the guest is.
func (s *Service) Info(context.Context, *guestpb.InfoRequest) (*guestpb.InfoResponse, error) {
	info := s.system.Info()
	info.GuestVersion = s.version
	info.OrphansReaped = s.keeper.Orphans()
	s.mu.Lock()
	info.Running = uint32(len(s.running))
	s.mu.Unlock()
	return info, nil
}

// SetTime sets the clock.
func (s *Service) SetTime(_ context.Context, r *guestpb.SetTimeRequest) (*guestpb.SetTimeResponse, error) {
	offset, err := s.system.SetTime(time.Unix(0, r.TimeUnixNano))
	if err != nil {
		return nil, err
	}
	return &guestpb.SetTimeResponse{OffsetNanos: int64(offset)}, nil
}

// Shutdown powers the machine off once its answer has left.
func (s *Service) Shutdown(ctx context.Context, r *guestpb.ShutdownRequest) (*guestpb.ShutdownResponse, error) {
	g, err := grace(r.GraceNanos)
	if err != nil {
		return nil, err
	}
	// The server ends a call's context when the answer is written.
	context.AfterFunc(ctx, func() { s.system.PowerOff(g) })
	return &guestpb.ShutdownResponse{}, nil
}

func grace(nanos int64) (time.Duration, error) {
	switch g := time.Duration(nanos); {
	case g < 0 || g > protocol.MaxGrace:
		return 0, fault.Newf(fault.InvalidArgs, "check grace", "", "%v is not between 0 and %v", g, protocol.MaxGrace)
	case g == 0:
		return protocol.DefaultGrace, nil
	default:
		return g, nil
	}
}

//go:build linux

// Package service implements the guest's side of the guest protocol.
package service

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/mount"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/notify"
)

// System is the machine that the service controls.
type System interface {
	// Boot boots as the host's first Hello asks. It is called once.
	Boot(*guestpb.HelloRequest) error
	// Info returns the state of the machine.
	Info() *guestpb.InfoResponse
	// SetTime sets the clock and returns how far it was ahead of t.
	SetTime(time.Time) (time.Duration, error)
	// PowerOff ends all processes and turns the machine off. It does not return on a real machine.
	PowerOff(grace time.Duration)
}

// Service answers the host's calls.
type Service struct {
	system    System
	processes *process.Manager
	rooms     *room.Manager
	shells    *shell.Manager
	jobs      *job.Manager
	files     *files.Manager
	mounts    *mount.Manager
	version   string

	mu     sync.Mutex
	key    *protocol.Key // from the first Hello
	booted chan struct{} // closed when System.Boot has returned
	err    error         // what it returned

	running map[uint64]*process.Child // commands by id
	slots   *slots

	data     string     // where the data disk is mounted
	freezing sync.Mutex // apart from mu: a slow disk takes long to freeze
	thaw     *time.Timer
	ioctl    func(fd int, request uint, value int) error // unix.IoctlSetInt, except in tests
}

// New returns a service for a system. It starts commands with processes.
// The data disk is mounted at data.
func New(system System, processes *process.Manager, rooms *room.Manager, data, version string) *Service {
	s := &Service{
		system: system, processes: processes, rooms: rooms, version: version, booted: make(chan struct{}),
		data: data, ioctl: unix.IoctlSetInt, running: map[uint64]*process.Child{}, slots: commandSlots(),
	}
	s.shells = shell.NewManager(processes, func(ctx context.Context, user string) (shell.Room, error) { return s.find(ctx, user) })
	s.jobs = job.NewManager(processes, func(ctx context.Context, user string) (job.Room, error) { return s.find(ctx, user) })
	s.files = files.NewManager(processes, rooms.Program(), func(ctx context.Context, user string) (files.Room, error) {
		r, err := s.find(ctx, user)
		if fault.KindOf(err) == fault.NotFound { // the caller would take NotFound for a missing file
			err = fault.New(fault.Unavailable, "access files", user, err).Advise("The agent has been reset or deleted: try again.")
		}
		return r, err
	})
	s.mounts = mount.NewManager(rooms)
	return s
}

// Close ends shells and jobs.
func (s *Service) Close() {
	s.shells.Close()
	s.jobs.Close()
}

// letGo ends a user's file worker, and with stop also shells, jobs and mounts.
func (s *Service) letGo(user string, stop bool) {
	if stop {
		s.leave(user)
	} else {
		s.files.Forget(user)
	}
}

// leave ends a user's shells, jobs, file worker and mounts. It does not wait for processes that hang on a
// share: removing their room reports those.
func (s *Service) leave(user string) {
	var all sync.WaitGroup
	for _, forget := range []func(string){s.shells.Forget, s.jobs.Forget, s.files.Forget, s.mounts.Leave} {
		all.Go(func() { forget(user) })
	}
	left := make(chan struct{})
	go func() { defer close(left); all.Wait() }()
	select {
	case <-left:
	case <-time.After(leaveWithin):
	}
}

// leaveWithin bounds the wait for killed shells and jobs to finish their output on a busy guest.
const leaveWithin = 10 * time.Second

// Serve serves connections until the listener is closed. It leaves open connections open, since the
// answer to Shutdown is sent over one.
func (s *Service) Serve(l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(s, options()...))
	rooms := room.Service{Manager: s.rooms, LetGo: s.letGo}
	mux.Handle(guestpbconnect.NewRoomsHandler(rooms, options()...))
	mux.Handle(guestpbconnect.NewSnapshotsHandler(rooms, options()...))
	ServeTerminals(mux, s.shells, s.jobs)
	ServePorts(mux, s.dial)
	mux.Handle(guestpbconnect.NewMountsHandler(s.mounts, options()...))
	server := &http.Server{
		Handler: s.guard(mux), Protocols: protocol.Protocols(), HTTP2: protocol.HTTP2(), MaxHeaderBytes: protocol.MaxHeaders,
	}
	return server.Serve(l)
}

// ServeTerminals registers the Shells and Jobs services.
func ServeTerminals(mux *http.ServeMux, s *shell.Manager, j *job.Manager) {
	mux.Handle(guestpbconnect.NewShellsHandler(shells{s}, options()...))
	mux.Handle(guestpbconnect.NewJobsHandler(j, options()...))
}

func options() []connect.HandlerOption {
	return []connect.HandlerOption{protocol.HandlerOptions(), connect.WithInterceptors(faultrpc.Interceptor())}
}

// guard accepts Hello, and other calls with the right key once the machine has booted.
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

// admit checks the key and that the machine has booted.
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
	if !notify.Closed(s.booted) {
		return fault.Newf(fault.Unavailable, "check boot", "", "the guest is not ready yet")
	}
	return s.err
}

// Hello is the first call of the host. It boots the machine.
func (s *Service) Hello(ctx context.Context, r *guestpb.HelloRequest) (*guestpb.HelloResponse, error) {
	if r.Version != protocol.Version {
		return nil, fault.Newf(fault.Rejected, "greet", "", "the guest speaks version %d of the protocol, the host %d", protocol.Version, r.Version).
			Advise("Build the image with the guest program of this release: `osaurus-sandbox pack build`.")
	}
	key, err := protocol.ParseKey(r.Key)
	if err != nil {
		return nil, err
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
	return &guestpb.HelloResponse{GuestVersion: s.version}, nil
}

// greet accepts the key of the first Hello, and only that key afterwards.
func (s *Service) greet(key protocol.Key, hello *guestpb.HelloRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		if !s.key.Equal(key) {
			return fault.Newf(fault.Rejected, "greet", "", "another host has said hello in this boot").
				Advise("A guest accepts one host: restart the machine.")
		}
		return nil
	}
	s.key = &key
	// Not bound to the call: a host that lost its connection calls again.
	go func() {
		s.err = s.system.Boot(hello)
		close(s.booted)
	}()
	return nil
}

// Ping does nothing. The host uses it to check the connection.
func (s *Service) Ping(context.Context, *guestpb.PingRequest) (*guestpb.PingResponse, error) {
	return &guestpb.PingResponse{}, nil
}

// Info returns the state of the guest.
func (s *Service) Info(context.Context, *guestpb.InfoRequest) (*guestpb.InfoResponse, error) {
	info := s.system.Info()
	info.GuestVersion = s.version
	info.OrphansReaped = s.processes.Orphans()
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

// Shutdown powers the machine off after it has been answered.
func (s *Service) Shutdown(ctx context.Context, r *guestpb.ShutdownRequest) (*guestpb.ShutdownResponse, error) {
	grace := cmp.Or(time.Duration(r.GraceNanos), protocol.DefaultGrace)
	_, _ = s.Freeze(ctx, &guestpb.FreezeRequest{}) // thaw the disk, to which everything is written
	// The server cancels a call's context once the answer is written.
	context.AfterFunc(ctx, func() { s.system.PowerOff(grace) })
	return &guestpb.ShutdownResponse{}, nil
}

// find returns the room of a user.
func (s *Service) find(ctx context.Context, user string) (*room.Room, error) {
	if err := protocol.CheckUser(user); err != nil {
		return nil, err
	}
	return s.rooms.Get(ctx, user)
}

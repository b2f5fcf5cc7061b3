package hosttest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/supervisor"
)

// greetLimit is how long a service in this process may take to answer.
const greetLimit = 10 * time.Second

// shells are real ones: the guest's own code, with this host's bash, each user
// in a home of its own. Walls there are none.
type shells struct {
	guestpbconnect.UnimplementedGuestHandler
	guestpbconnect.UnimplementedShellsHandler
	keeper    *shell.Keeper
	processes *process.Keeper
	server    *http.Server
	client    *guest.Client
	dir       string
}

// newShells serves them over the guest protocol.
func newShells(g *Guest) (_ *shells, err error) {
	s := &shells{server: &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: greetLimit}}
	s.server.Protocols.SetUnencryptedHTTP2(true)
	if s.dir, err = os.MkdirTemp("", "hosttest-"); err != nil {
		return nil, err
	}
	if s.processes, err = process.NewKeeper(process.Options{}); err != nil {
		return nil, err
	}
	s.keeper = shell.NewKeeper(shell.Options{Processes: s.processes, Find: func(_ context.Context, user string) (shell.Room, error) {
		return s.room(g, user)
	}})
	l, err := net.Listen("unix", filepath.Join(s.dir, "socket"))
	if err != nil {
		return nil, err
	}
	faults := connect.WithInterceptors(faultrpc.Interceptor())
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(s, faults))
	mux.Handle(guestpbconnect.NewShellsHandler(s, faults))
	s.server.Handler = mux
	go func() { _ = s.server.Serve(l) }()
	ctx, cancel := context.WithTimeout(context.Background(), greetLimit)
	defer cancel()
	s.client, err = guest.Connect(ctx, func(ctx context.Context, _ uint32) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}, guest.Boot{})
	return s, err
}

func (s *shells) room(g *Guest, user string) (shell.Room, error) {
	if _, ok := g.Room(user); !ok {
		return shell.Room{}, noRoom(user)
	}
	home, desk := filepath.Join(s.dir, user), filepath.Join(s.dir, user+".desk")
	for _, dir := range []string{home, desk} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return shell.Room{}, err
		}
	}
	return shell.Room{
		Env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USER=" + user, "LANG=C.UTF-8", "SHELL=/bin/bash", "TERM=xterm"},
		Home: home,
		Desk: func() (*os.File, string, error) {
			f, err := os.Open(desk)
			return f, desk, err
		},
	}, nil
}

func (s *shells) close() error {
	s.keeper.Close()
	s.processes.Close()
	s.client.Close()
	return errors.Join(s.server.Close(), os.RemoveAll(s.dir))
}

// Shells are real ones, on this host.
func (g *Guest) Shells() supervisor.Shells { return g.shells.client }

func (*shells) Hello(_ context.Context, r *connect.Request[guestpb.HelloRequest]) (*connect.Response[guestpb.HelloResponse], error) {
	return connect.NewResponse(&guestpb.HelloResponse{Version: r.Msg.VersionMax}), nil
}

func (s *shells) Run(ctx context.Context, r *connect.Request[guestpb.ShellRunRequest]) (*connect.Response[guestpb.ShellRunResponse], error) {
	answer, err := s.keeper.Run(ctx, r.Msg)
	return connect.NewResponse(answer), err
}

func (s *shells) Cancel(ctx context.Context, r *connect.Request[guestpb.ShellCancelRequest]) (*connect.Response[guestpb.ShellCancelResponse], error) {
	return connect.NewResponse(&guestpb.ShellCancelResponse{}), s.keeper.Cancel(ctx, r.Msg)
}

func (s *shells) Sessions(_ context.Context, r *connect.Request[guestpb.SessionsRequest]) (*connect.Response[guestpb.SessionsResponse], error) {
	return connect.NewResponse(s.keeper.Sessions(r.Msg)), nil
}

func (s *shells) Transcript(_ context.Context, r *connect.Request[guestpb.ShellTranscriptRequest]) (*connect.Response[guestpb.ShellTranscriptResponse], error) {
	answer, err := s.keeper.Transcript(r.Msg)
	return connect.NewResponse(answer), err
}

func (s *shells) CloseSession(_ context.Context, r *connect.Request[guestpb.CloseSessionRequest]) (*connect.Response[guestpb.CloseSessionResponse], error) {
	answer, err := s.keeper.CloseSession(r.Msg)
	return connect.NewResponse(answer), err
}

func (s *shells) Attach(ctx context.Context, stream *connect.BidiStream[guestpb.ShellAttachRequest, guestpb.ShellAttachResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	v, err := s.keeper.Attach(ctx, first.GetOpen())
	if err != nil {
		return err
	}
	defer v.Close()
	go func() {
		for {
			m, err := stream.Receive()
			if err != nil {
				return
			}
			if resize := m.GetResize(); resize != nil {
				_ = v.Resize(resize)
			}
			_ = v.Type(ctx, m.GetInput())
		}
	}()
	for {
		shown, ended, err := v.Next(ctx)
		if errors.Is(err, io.EOF) {
			return stream.Send(&guestpb.ShellAttachResponse{What: &guestpb.ShellAttachResponse_Ended{Ended: ended}})
		}
		if err == nil {
			err = stream.Send(&guestpb.ShellAttachResponse{What: &guestpb.ShellAttachResponse_Output{Output: shown}})
		}
		if err != nil {
			return err
		}
	}
}

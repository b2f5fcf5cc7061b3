package guest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// silent is a guest that starts a command, or not even that, and then says nothing.
type silent struct {
	guestpbconnect.UnimplementedGuestHandler
	begins bool
}

func (s silent) ExecWithoutInput(ctx context.Context, _ *guestpb.Start, stream *connect.ServerStream[guestpb.ExecResponse]) error {
	if s.begins {
		if err := stream.Send(&guestpb.ExecResponse{What: &guestpb.ExecResponse_Started{Started: &guestpb.Started{Id: 1, Pid: 2}}}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// TestCommandInSilentGuest checks that a caller does not wait for a guest that falls silent,
// neither while a command starts nor after its timeout.
func TestCommandInSilentGuest(t *testing.T) {
	for name, begins := range map[string]bool{"never starts": false, "never ends": true} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				conns := make(chan net.Conn, 1)
				mux := http.NewServeMux()
				mux.Handle(guestpbconnect.NewGuestHandler(silent{begins: begins}))
				server := &http.Server{Handler: mux}
				go func() { _ = server.Serve(pipes(conns)) }()
				defer close(conns)
				c := newClient(Dialer(func(context.Context, uint32) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						if _, err := protocol.ReadDataHeader(far); err != nil {
							t.Error(err)
						}
						conns <- far
					}()
					return near, nil
				}), protocol.Key{})
				defer c.Close()
				began := time.Now()
				_, err := engine.Run(t.Context(), c.Room("agent-alice"), engine.Command{Args: []string{"true"}, Timeout: time.Minute})
				if fault.KindOf(err) != fault.Timeout || fault.AdviceOf(err) == "" {
					t.Errorf("%v (%s)", err, fault.KindOf(err))
				}
				want := execLimit
				if begins {
					want = time.Minute + protocol.DefaultGrace + execSlack
				}
				if took := time.Since(began); took != want {
					t.Errorf("it took %v, want %v", took, want)
				}
			})
		})
	}
}

// pipes is a listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

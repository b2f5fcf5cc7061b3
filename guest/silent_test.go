package guest

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// A command does not hold up its caller when the guest falls silent, neither
// while it starts nor after its timeout.
func TestCommandInSilentGuest(t *testing.T) {
	for name, begins := range map[string]bool{"never starts": false, "never ends": true} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				c := newClient(Dialer(func(context.Context, uint32) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						from := bufio.NewReader(far)
						if begins {
							if _, err := protocol.ReadDataHeader(from); err != nil {
								t.Error(err)
							}
							if _, _, err := protocol.ReadFrame(from, nil); err != nil {
								t.Error(err)
							}
							started := &guestpb.ExecResponse{What: &guestpb.ExecResponse_Started{Started: &guestpb.Started{Id: 1, Pid: 2}}}
							b, err := protocol.AppendFrame(nil, protocol.FrameMessage, started)
							if err != nil {
								t.Error(err)
							}
							if _, err := far.Write(b); err != nil {
								t.Error(err)
							}
						}
						_, _ = io.Copy(io.Discard, from)
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
					want = time.Minute + execGrace + execSlack
				}
				if took := time.Since(began); took != want {
					t.Errorf("it took %v, want %v", took, want)
				}
			})
		})
	}
}

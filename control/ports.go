package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

const (
	// maxPorts bounds the ports of one Forward. Its audit entry lists them all.
	maxPorts = 64
	// maxSilence is how long a room may answer nothing after the client has ended its
	// side. Pages that were closed leave such connections to servers that do not notice,
	// and each takes a slot.
	maxSilence = 5 * time.Minute
)

// portService implements the service Ports.
type portService struct{ service }

// Forward makes ports of an agent reachable for as long as the call lasts.
func (s portService) Forward(ctx context.Context, r *controlpb.ForwardPortsRequest, stream *connect.ServerStream[controlpb.ForwardPortsResponse]) error {
	if n := len(r.Ports); n == 0 || n > maxPorts {
		return fault.Newf(fault.InvalidArgs, "forward ports", "", "%d ports", n).Advise(fmt.Sprintf("Name between 1 and %d.", maxPorts))
	}
	for _, port := range r.Ports {
		if _, err := config.ParsePort(fmt.Sprint(port)); err != nil {
			return err
		}
	}
	return s.onRecord(ctx, r.Agent, "forward", strings.Trim(fmt.Sprint(r.Ports), "[]"), func(agent agents.Agent) error {
		lease, agent, err := s.Agents.Room(string(agent.ID)).Enter(ctx)
		if err != nil {
			return err
		}
		defer lease.Release()
		lasts, end := context.WithCancel(ctx)
		defer end()
		id := rand.Text() // connections are admitted by it
		s.forwards.Store(id, forward{agent.ID, r.Ports, lasts})
		defer s.forwards.Delete(id)
		if err := stream.Send(&controlpb.ForwardPortsResponse{Id: id}); err != nil {
			return err
		}
		for {
			changed := s.Agents.Changed()
			if !s.Agents.Has(agent.ID) {
				return fault.Newf(fault.NotFound, "forward ports", string(agent.Name), "the agent was deleted").Advise("Forward those of another one.")
			}
			select {
			case <-changed:
			case <-ctx.Done(): // the client disconnected
				return nil
			case <-s.closing:
				return nil
			}
		}
	})
}

type connectStream = connect.BidiStream[controlpb.ConnectPortRequest, controlpb.Chunk]

// Connect carries one connection to a forwarded port.
func (s portService) Connect(ctx context.Context, stream *connectStream) error {
	first, err := stream.Receive()
	to := first.GetTo()
	if err != nil || to == nil {
		return fault.New(fault.InvalidArgs, "connect to port", "", errors.Join(errors.New("the first message does not say to what"), err)).Advise("Send `to` in the first message.")
	}
	found, _ := s.forwards.Load(to.Forward)
	f, _ := found.(forward)
	if !slices.Contains(f.ports, to.Port) {
		return notForwarded(to)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.lasts, func() { cancel(errForwardEnded) })()
	in, room := io.Pipe()
	defer in.Close() // releases a writer when the room does not read
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	silence.Stop() // until the client has ended its side
	defer silence.Stop()
	go func() {
		defer room.Close() // also for a client that disconnects
		for {
			m, err := stream.Receive()
			if err != nil {
				silence.Reset(maxSilence)
				return
			}
			if _, err := room.Write(m.GetData()); err != nil {
				return
			}
		}
	}()
	err = s.Agents.Connect(ctx, string(f.agent), config.Port(to.Port), in, inChunks(func(b []byte) error {
		return pausing(silence, maxSilence, func() error { return stream.Send(&controlpb.Chunk{Data: b}) })
	}))
	switch cause := context.Cause(ctx); {
	case err != nil && cause == errForwardEnded:
		return notForwarded(to)
	case err != nil && cause == errSilent:
		return fault.New(fault.Timeout, "connect to port", fmt.Sprint(to.Port), errSilent).Advise("Connect again, or check that server.")
	}
	return err
}

// The causes that end a connection from this side.
var (
	errForwardEnded = errors.New("the port is no longer forwarded")
	errSilent       = fmt.Errorf("the server in the room has not answered for %v", maxSilence)
)

// pausing calls do while a timer is stopped, and starts it anew if it ran.
func pausing(timer *time.Timer, d time.Duration, do func() error) error {
	if timer.Stop() {
		defer timer.Reset(d)
	}
	return do()
}

// notForwarded is the error of a connection to a port that is not forwarded.
func notForwarded(to *controlpb.ConnectTo) error {
	return fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "nobody forwards it").Advise("Call Forward, and connect while that call lasts.")
}

// forward is a call of Forward that lasts.
type forward struct {
	agent config.AgentID
	ports []uint32
	lasts context.Context
}

package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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
	// maxConnections bounds the connections to ports of one agent, and maxOfAll those to
	// all agents. A guest carries as many, and a few more for agents that have few
	// (guest/service/slots.go). A browser opens six to each address.
	maxConnections, maxOfAll = 64, 80
	// fewConnections is how many an agent has whatever the others have: half of those
	// that a guest keeps free for it.
	fewConnections = 2
	// maxSilence is how long a room may answer nothing after the client has ended its
	// side. Pages that were closed leave such connections to servers that do not notice,
	// and each takes a slot.
	maxSilence = 5 * time.Minute
)

// portService implements the service Ports.
type portService struct{ service }

// Forward makes ports of an agent reachable for as long as the call lasts.
func (s portService) Forward(ctx context.Context, r *controlpb.ForwardPortsRequest, stream *connect.ServerStream[controlpb.ForwardPortsResponse]) error {
	ports, err := portsOf(r.Ports)
	if err != nil {
		return err
	}
	return s.onRecord(ctx, r.Agent, "forward", strings.Trim(fmt.Sprint(ports), "[]"), func(agent agents.Agent) error {
		lease, agent, err := s.Agents.Room(string(agent.ID)).Enter(ctx)
		if err != nil {
			return err
		}
		defer lease.Release()
		id, forget := s.forwards.add(ctx, agent.ID, ports)
		defer forget()
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

// portsOf parses the ports of a request.
func portsOf(list []uint32) ([]config.Port, error) {
	const op = "forward ports"
	if len(list) == 0 || len(list) > maxPorts {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "%d ports", len(list)).Advise(fmt.Sprintf("Name between 1 and %d.", maxPorts))
	}
	return parseAll(list, func(n uint32) (config.Port, error) { return config.ParsePort(fmt.Sprint(n)) })
}

type connectStream = connect.BidiStream[controlpb.ConnectPortRequest, controlpb.ConnectPortResponse]

// Connect carries one connection to a forwarded port.
func (s portService) Connect(ctx context.Context, stream *connectStream) error {
	first, err := stream.Receive()
	to := first.GetTo()
	if err != nil || to == nil {
		return fault.New(fault.InvalidArgs, "connect to port", "", errors.Join(errors.New("the first message does not say to what"), err)).Advise("Send `to` in the first message.")
	}
	f, release, err := s.forwards.enter(to)
	if err != nil {
		return err
	}
	defer release()
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
		return pausing(silence, maxSilence, func() error { return stream.Send(&controlpb.ConnectPortResponse{Data: b}) })
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
	ports []config.Port
	lasts context.Context
}

// forwards holds the calls of Forward by their ids, which cannot be guessed: connections
// are admitted by them.
type forwards struct {
	mu    sync.Mutex
	all   map[string]forward
	open  map[config.AgentID]int // connections
	total int
}

func (f *forwards) add(ctx context.Context, agent config.AgentID, ports []config.Port) (id string, forget func()) {
	ctx, end := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.open = map[string]forward{}, map[config.AgentID]int{}
	}
	id = rand.Text()
	f.all[id] = forward{agent, ports, ctx}
	return id, func() {
		end()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, id)
	}
}

// enter finds the forward of a connection. The caller releases it when the connection ends.
func (f *forwards) enter(to *controlpb.ConnectTo) (one forward, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.all[to.Forward]
	if !ok || !slices.ContainsFunc(one.ports, func(p config.Port) bool { return uint32(p) == to.Port }) {
		return one, nil, notForwarded(to)
	}
	if own := f.open[one.agent]; own >= maxConnections || f.total >= maxOfAll && own >= fewConnections {
		return one, nil, fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "%d connections to ports of this agent are open (at most %d), and %d to those of all agents (at most %d)", own, maxConnections, f.total, maxOfAll).
			Advise("Close pages that never finish loading, or end another forward.")
	}
	f.open[one.agent]++
	f.total++
	return one, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total--
		if f.open[one.agent]--; f.open[one.agent] == 0 {
			delete(f.open, one.agent)
		}
	}, nil
}

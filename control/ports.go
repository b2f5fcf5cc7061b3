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
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/supervisor/agents"
)

const (
	// maxPorts bounds the ports of one Forward: a person who needs more of an agent's has
	// another call. The audit's entry names all.
	maxPorts = 64
	// maxConnections bounds the connections of one agent at a time, whoever forwards its
	// ports, and maxOfAll those of all agents: more are refused. Each is a command, of which a
	// guest takes 100, and some more of agents that have few (guest/service/slots.go). A browser
	// has six for each address.
	maxConnections, maxOfAll = 64, 80
	// maxSilence is how long at least nothing may come for who has sent all: pages that were
	// closed leave such connections to servers that do not look, and each has a slot. A server
	// that works for somebody has said something by then.
	maxSilence = 5 * time.Minute
)

// portService is the part of the API that is about what listens in rooms.
type portService struct{ service }

// Forward has ports of an agent's be reached for as long as it lasts.
func (s portService) Forward(ctx context.Context, r *controlpb.ForwardPortsRequest, stream *connect.ServerStream[controlpb.ForwardPortsResponse]) error {
	ports, err := portsOf(r.Ports)
	if err != nil {
		return err
	}
	return s.onRecord(ctx, r.Agent, "forward", strings.Trim(fmt.Sprint(ports), "[]"), func(agent agents.Agent) error {
		loan, agent, err := s.Agents.Enter(ctx, string(agent.ID))
		if err != nil {
			return err
		}
		defer loan.Return()
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
			case <-ctx.Done(): // who forwards has left
				return nil
			case <-s.closing:
				return nil
			}
		}
	})
}

// portsOf are ports as a request carries them.
func portsOf(list []uint32) ([]config.Port, error) {
	const op = "forward ports"
	if len(list) == 0 || len(list) > maxPorts {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "%d ports", len(list)).Advise(fmt.Sprintf("Name between 1 and %d.", maxPorts))
	}
	ports := make([]config.Port, len(list))
	for i, n := range list {
		var err error
		if ports[i], err = config.ParsePort(fmt.Sprint(n)); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

type connectStream = connect.BidiStream[controlpb.ConnectPortRequest, controlpb.ConnectPortResponse]

// Connect is one connection to a port that is forwarded.
func (s portService) Connect(ctx context.Context, stream *connectStream) error {
	first, err := stream.Receive()
	to := first.GetTo()
	if err != nil || to == nil {
		return fault.New(fault.InvalidArgs, "connect to port", "", errors.Join(errors.New("the first message does not say to what"), err)).Advise("Begin with a message that has to.")
	}
	f, release, err := s.forwards.enter(to)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.lasts, func() { cancel(nil) })()
	var answers atomic.Int64
	in, fed := io.Pipe()
	defer in.Close() // releases whoever waits for the room to read
	go func() {
		for {
			m, err := stream.Receive()
			if err == nil {
				_, err = fed.Write(m.GetData())
			}
			if err != nil {
				break // it is all that is sent; who goes away without a word ends the call too
			}
		}
		_ = fed.Close()
		hangUp(ctx, &answers, func() { cancel(errNoAnswer) })
	}()
	err = s.Agents.Connect(ctx, string(f.agent), config.Port(to.Port), in, writer(func(b []byte) (int, error) {
		answers.Add(1)
		return len(b), stream.Send(&controlpb.ConnectPortResponse{Data: b})
	}))
	switch {
	case err != nil && f.lasts.Err() != nil:
		return notForwarded(to)
	case err != nil && context.Cause(ctx) == errNoAnswer:
		return fault.New(fault.Timeout, "connect to port", fmt.Sprint(to.Port), errNoAnswer).Advise("Connect anew.")
	}
	return err
}

// errNoAnswer is why a connection is ended of who has sent all.
var errNoAnswer = fmt.Errorf("all was sent, and nothing came for %v", maxSilence)

// hangUp ends a connection of whose other end nothing more comes.
func hangUp(ctx context.Context, answers *atomic.Int64, end func()) {
	for before := int64(-1); ; {
		now := answers.Load()
		if now == before {
			end()
			return
		}
		before = now
		select {
		case <-time.After(maxSilence):
		case <-ctx.Done():
			return
		}
	}
}

// notForwarded is the error of a connection to what is not forwarded, or no more.
func notForwarded(to *controlpb.ConnectTo) error {
	return fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "nobody forwards it").Advise("Call Forward, and connect while that call lasts.")
}

// forward is what somebody forwards, for as long as it lasts.
type forward struct {
	agent config.AgentID
	ports []config.Port
	lasts context.Context
}

// forwards are what is forwarded now, by ids that nobody guesses: they are on record.
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

// enter finds what a connection is part of, which must be released once it has ended.
func (f *forwards) enter(to *controlpb.ConnectTo) (one forward, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.all[to.Forward]
	if !ok || !slices.ContainsFunc(one.ports, func(p config.Port) bool { return uint32(p) == to.Port }) {
		return one, nil, notForwarded(to)
	}
	if own := f.open[one.agent]; own >= maxConnections || f.total >= maxOfAll {
		return one, nil, fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "%d connections to ports of this agent are open, and %d to those of all", own, f.total).
			Advise("Close pages that load for ever, or end another forward.")
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

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

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/supervisor/agents"
)

// maxPorts bounds the ports of one Forward: a person who needs more of an agent's has
// another call. The audit's entry names all.
const maxPorts = 64

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
		select {
		case <-ctx.Done(): // who forwards has left
		case <-s.closing:
		}
		return nil
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
	f, err := s.forwards.find(to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.lasts, cancel)()
	in, fed := io.Pipe()
	defer in.Close() // releases whoever waits for the room to read
	go func() {
		defer fed.Close()
		for {
			m, err := stream.Receive()
			if err == nil {
				_, err = fed.Write(m.GetData())
			}
			if err != nil {
				return // it is all that is sent; who goes away without a word ends the call too
			}
		}
	}()
	err = s.Agents.Connect(ctx, string(f.agent), config.Port(to.Port), in, writer(func(b []byte) (int, error) {
		return len(b), stream.Send(&controlpb.ConnectPortResponse{Data: b})
	}))
	if err != nil && f.lasts.Err() != nil {
		return notForwarded(to)
	}
	return err
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
	mu  sync.Mutex
	all map[string]forward
}

func (f *forwards) add(ctx context.Context, agent config.AgentID, ports []config.Port) (id string, forget func()) {
	ctx, end := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]forward{}
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

func (f *forwards) find(to *controlpb.ConnectTo) (forward, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.all[to.Forward]
	if !ok || !slices.ContainsFunc(one.ports, func(p config.Port) bool { return uint32(p) == to.Port }) {
		return forward{}, notForwarded(to)
	}
	return one, nil
}

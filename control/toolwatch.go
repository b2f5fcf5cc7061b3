package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/journey"
	"osaurus-sandbox/tools"
)

// startPace is how often a call that waits for the sandbox says how far that is: a
// download is further a thousand times a second.
const startPace = 500 * time.Millisecond

// Watch tells of changes of an agent's tools.
func (s toolService) Watch(ctx context.Context, r *connect.Request[controlpb.WatchToolsRequest], stream *connect.ServerStream[controlpb.WatchToolsResponse]) error {
	for {
		tools, agents := s.Tools.Changed(), s.Agents.Changed() // before the look, so that nothing is missed
		if _, err := s.Agents.Get(r.Msg.Agent); err != nil {
			return err
		}
		if err := stream.Send(&controlpb.WatchToolsResponse{}); err != nil {
			return err
		}
		select {
		case <-tools:
		case <-agents:
		case <-s.closing:
			return fault.New(fault.Unavailable, "watch tools", r.Msg.Agent, errors.New("the daemon ends"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hearer is who called a tool, and hears of it from several goroutines.
type hearer struct {
	mu     sync.Mutex
	stream *connect.ServerStream[controlpb.CallToolResponse]
}

func (h *hearer) send(r *controlpb.CallToolResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream.Send(r)
}

// tell says how far the call has come. Who does not hear it gets the envelope, or
// has left.
func (h *hearer) tell(p tools.Progress) {
	_ = h.send(&controlpb.CallToolResponse{Progress: &controlpb.ToolProgress{Text: p.Text, Done: p.Done, Total: p.Total}})
}

// tellStart says how far the sandbox's start has come that a call waits for. It
// returns when the guest runs, or when the call is done.
func (s service) tellStart(ctx context.Context, tell func(tools.Progress)) {
	status := s.Sandbox.Status()
	for status.State != supervisor.Running {
		if p, ok := startSoFar(status); ok {
			tell(p)
		}
		select {
		case <-time.After(startPace):
		case <-ctx.Done():
			return
		}
		var err error
		if status, err = s.Sandbox.Next(ctx, status.Revision); err != nil {
			return
		}
	}
}

// startSoFar is what a person wants to know of a start that is under way.
func startSoFar(status supervisor.Status) (tools.Progress, bool) {
	if status.State != supervisor.Provisioning && status.State != supervisor.Starting {
		return tools.Progress{}, false
	}
	p := tools.Progress{Text: "the sandbox is " + string(status.State)}
	if status.Journey == nil {
		return p, true
	}
	for _, leg := range status.Journey.Legs {
		if leg.Status == journey.InProgress {
			p.Text, p.Done, p.Total = fmt.Sprintf("%s: %s", p.Text, leg.Step), float64(leg.Done), float64(leg.Total)
		}
	}
	return p, true
}

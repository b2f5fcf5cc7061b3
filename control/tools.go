package control

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// toolService implements the service Tools.
type toolService struct{ service }

// List lists the tools that an agent may call.
func (s toolService) List(_ context.Context, r *controlpb.ListToolsRequest) (*controlpb.ListToolsResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	profile := tools.Full
	if r.Lean {
		profile = tools.Lean
	}
	list, err := parseAll(s.Tools.List(toolhost.AgentOf(agent), profile), toolProto)
	return &controlpb.ListToolsResponse{Tools: list}, err
}

func toolProto(t tools.Tool) (*controlpb.Tool, error) {
	input, output, err := t.Schemas()
	return &controlpb.Tool{
		Name: string(t.Name), Title: t.Title, Description: t.Description, InputSchema: input, OutputSchema: output,
		ReadOnly: t.Hints.ReadOnly, Destructive: t.Hints.Destructive, Idempotent: t.Hints.Idempotent, OpenWorld: t.Hints.OpenWorld,
	}, err
}

// CallTool calls a tool and returns its envelope. It calls tell, if not nil, with progress.
func (c *Client) CallTool(ctx context.Context, r *controlpb.CallToolRequest, tell func(*controlpb.ToolProgress)) (envelope string, err error) {
	for m, err := range Messages(c.Tools.Call(ctx, r)) {
		if errors.Is(err, errLost) { // a retry could run it twice
			return "", fault.New(fault.Execution, "call tool", r.Tool, err).
				Advise("It may have run, as a whole or in part: look what it has done before you call it again.")
		}
		if err != nil {
			return "", err
		}
		if m.Progress != nil && tell != nil {
			tell(m.Progress)
		}
		envelope = m.Envelope
	}
	return envelope, nil
}

// Call calls a tool for an agent. A failed tool is in the envelope; only a call that was
// not made is an error.
func (s toolService) Call(ctx context.Context, r *controlpb.CallToolRequest, stream *connect.ServerStream[controlpb.CallToolResponse]) error {
	var envelope *tools.Envelope
	session, err := optional(r.Session, config.ParseSessionID)
	if err != nil {
		return err
	}
	shared := &sharedStream[controlpb.CallToolResponse]{stream: stream}
	tell := func(p tools.Progress) { // a client that misses it gets the envelope, or has disconnected
		_ = shared.Send(&controlpb.CallToolResponse{Progress: &controlpb.ToolProgress{Text: p.Text, Done: p.Done, Total: p.Total}})
	}
	err = s.onRecord(ctx, r.Agent, "tool.call", r.Tool, func(agent agents.Agent) error {
		call := tools.Call{Agent: toolhost.AgentOf(agent), Turn: r.Turn, Session: session, Tell: tell}
		run := func() error {
			answer := s.Tools.Call(ctx, call, r.Tool, json.RawMessage(r.Arguments))
			envelope = &answer
			if answer.Failure != nil {
				return fault.New(answer.Failure.Kind, "call", r.Tool, answer.Failure)
			}
			return nil
		}
		if t, known := s.Tools.Get(agent.ID, r.Tool); !known || t.Hints.ReadOnly || t.NoCheckpoint {
			return run()
		}
		warning, err := s.undoable(ctx, agent, r.Tool, toolSummary(r.Arguments), run)
		if warning != "" {
			envelope.Warnings = append(envelope.Warnings, warning)
		}
		return err
	})
	if envelope == nil {
		return err
	}
	return shared.Send(&controlpb.CallToolResponse{Envelope: envelope.Text()})
}

// sharedStream is a stream to which several goroutines send.
type sharedStream[M any] struct {
	sync.Mutex
	stream interface{ Send(*M) error }
}

func (s *sharedStream[M]) Send(m *M) error {
	s.Lock()
	defer s.Unlock()
	return s.stream.Send(m)
}

// Watch sends a message now and after each change of an agent's tools.
func (s toolService) Watch(ctx context.Context, r *controlpb.WatchToolsRequest, stream *connect.ServerStream[controlpb.WatchToolsResponse]) error {
	for {
		tools, agents := s.Tools.Changed(), s.Agents.Changed() // before reading, so that no change is missed
		if _, err := s.Agents.Get(r.Agent); err != nil {
			return err
		}
		if err := stream.Send(&controlpb.WatchToolsResponse{}); err != nil {
			return err
		}
		select {
		case <-tools:
		case <-agents:
		case <-s.closing:
			return fault.Newf(fault.Unavailable, "watch tools", r.Agent, "the daemon ends")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

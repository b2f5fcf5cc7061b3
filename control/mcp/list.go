package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// list answers the tools that the agent may call now.
func (s *session) list(ctx context.Context, method string, r mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, r)
	if err != nil {
		return nil, err
	}
	list, err := s.look(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	answer := result.(*mcp.ListToolsResult)
	answer.Tools, answer.NextCursor, answer.CacheScope = list, "", "private" // they are this agent's
	return answer, nil
}

// look looks which tools there are, of which the client knows from then on.
func (s *session) look(ctx context.Context) ([]*mcp.Tool, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	list, text, err := s.tools(ctx)
	if err == nil {
		s.shown = text
	}
	return list, err
}

// begin takes a client that listens and was told of no tools as knowing those that there are. To
// one that was told, what has changed since is news.
func (s *session) begin(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.shown != "" {
		return nil
	}
	_, text, err := s.tools(ctx)
	s.shown = text
	return err
}

// tools are the tools as the protocol has them, and the same as a text.
func (s *session) tools(ctx context.Context) ([]*mcp.Tool, string, error) {
	found, err := s.Sandbox.Tools(ctx, s.agent, s.Profile)
	if err != nil {
		return nil, "", err
	}
	list := make([]*mcp.Tool, len(found))
	for i, t := range found {
		list[i] = describe(t)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, "", fault.New(fault.Execution, "write tools", string(s.agent.Name), err)
	}
	return list, string(text), nil
}

// describe is a tool as the protocol has it. What it answers is the envelope.
func describe(t *controlpb.Tool) *mcp.Tool {
	d := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: json.RawMessage(t.InputSchema),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, IdempotentHint: t.Idempotent, DestructiveHint: &t.Destructive, OpenWorldHint: &t.OpenWorld},
	}
	if t.OutputSchema != "null" {
		d.OutputSchema = map[string]any{"type": "object", "required": []string{"ok"}, "properties": map[string]any{
			"ok": map[string]string{"type": "boolean"}, "result": json.RawMessage(t.OutputSchema),
		}}
	}
	return d
}

// follow tells a client of changes until its session ends, and ends that with all
// sessions. It fails, and ends the session, if there are too many.
func (s *session) follow(client *mcp.ServerSession) error {
	end := func() { s.life.do(func() { _ = client.Close() }) } // which waits for what is being answered
	if err := s.crowd.join(client.ID(), end); err != nil {
		s.life.do(func() {
			select {
			case <-s.opened: // before, the client would not learn why
			case <-s.life.Done():
			}
			_ = client.Close()
		})
		return err
	}
	ctx, cancel := context.WithCancel(s.life)
	s.life.do(func() {
		defer cancel()
		defer context.AfterFunc(s.life, func() { _ = client.Close() })()
		_ = client.Wait() // however it ended
		s.crowd.leave(client.ID())
	})
	s.life.do(func() { s.watch(ctx) })
	return nil
}

// watch tells the client when the tools are not those that it was told of. One
// that was told of none need not know.
func (s *session) watch(ctx context.Context) {
	s.Sandbox.Watch(ctx, s.agent, func() {
		s.turn.Lock()
		defer s.turn.Unlock()
		if s.shown == "" {
			return
		}
		if _, text, err := s.tools(ctx); err == nil && text != s.shown {
			s.shown = text
			s.ring()
		}
	})
}

// ring has the SDK tell the client that its tools have changed: it does so when
// it is given one. That one is never listed, and never called.
func (s *session) ring() {
	s.server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fault.Newf(fault.ToolNotFound, "call tool", "changed", "no such tool")
	})
}

// ParseProfile reads how many tools a client is to see.
func ParseProfile(text string) (tools.Profile, error) {
	switch p := tools.Profile(text); p {
	case tools.Full, tools.Lean:
		return p, nil
	}
	return "", fault.Newf(fault.InvalidArgs, "read profile", text, "no such profile").Advise("It is full or lean.")
}

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// list lists the tools that the agent may call now.
func (s *session) list(ctx context.Context, method string, r mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, r)
	if err != nil {
		return nil, err
	}
	list, _, err := s.tools(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	answer := result.(*mcp.ListToolsResult)
	answer.Tools, answer.NextCursor, answer.CacheScope = list, "", "private" // they differ by agent
	return answer, nil
}

// tools returns the tools, and whether they differ from those that it returned before.
func (s *session) tools(ctx context.Context) (list []*mcp.Tool, changed bool, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	found, err := s.Sandbox.Tools(ctx, s.client, &controlpb.ListToolsRequest{Agent: s.agent.Id, Lean: s.Profile == tools.Lean})
	if err != nil {
		return nil, false, err
	}
	list = make([]*mcp.Tool, len(found))
	for i, t := range found {
		list[i] = describe(t)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, false, fault.New(fault.Execution, "write tools", s.agent.Name, err)
	}
	changed = s.shown != "" && s.shown != string(text)
	s.shown = string(text)
	return list, changed, nil
}

// describe converts a tool. Its output is the envelope.
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

// follow notifies a client of changes until its session or the server ends.
func (s *session) follow(client *mcp.ServerSession) {
	ctx, cancel := context.WithCancel(s.life)
	open := cmp.Or(s.open, new(atomic.Int32))
	open.Add(1)
	s.life.do(func() {
		defer cancel()
		defer context.AfterFunc(s.life, func() { _ = client.Close() })()
		_ = client.Wait() // however it ended
		open.Add(-1)
	})
	s.life.do(func() { s.watch(ctx) })
}

// watch notifies the client when the tools have changed.
func (s *session) watch(ctx context.Context) {
	s.Sandbox.Watch(ctx, s.client, s.agent.Id, func() {
		if _, changed, err := s.tools(ctx); err == nil && changed {
			s.notifyChanged()
		}
	})
}

// notifyChanged makes the SDK send a notification that the tools have changed, by adding a
// tool that is never listed or called.
func (s *session) notifyChanged() {
	s.server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fault.Newf(fault.ToolNotFound, "call tool", "changed", "no such tool")
	})
}

// ParseProfile parses a profile.
func ParseProfile(text string) (tools.Profile, error) {
	switch p := tools.Profile(text); p {
	case tools.Full, tools.Lean:
		return p, nil
	}
	return "", fault.Newf(fault.InvalidArgs, "read profile", text, "no such profile").Advise("It is full or lean.")
}

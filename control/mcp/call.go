package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

const (
	// turnKey and conversationKey are keys of a request's _meta, for the model's turn
	// and the conversation that a call belongs to. Their values are strings.
	turnKey         = "ai.osaurus/turn"
	conversationKey = "ai.osaurus/session"
	// progressPace is the shortest time between two progress notifications.
	progressPace = 100 * time.Millisecond
)

// call calls a tool. A failure is part of the result, for the model.
func (s *session) call(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	turn, _ := r.Params.Meta[turnKey].(string)
	conversation, _ := r.Params.Meta[conversationKey].(string)
	var tell func(*controlpb.ToolProgress)
	if token := r.Params.GetProgressToken(); token != nil {
		tell = (&progress{session: r.Session, ctx: ctx, token: token, pace: rate.Sometimes{Interval: progressPace}}).tell
	}
	envelope, err := s.Sandbox.Call(ctx, s.client, &controlpb.CallToolRequest{
		Agent: s.agent.Id, Tool: r.Params.Name, Arguments: string(r.Params.Arguments), Turn: turn, Session: conversation,
	}, tell)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		failed := &tools.Failure{Kind: fault.KindOf(err), Message: refusal(err).Error()}
		failed.Final = failed.Kind == fault.Execution // it may have run
		envelope = tools.Envelope{Tool: tools.Name(r.Params.Name), Failure: failed}.Text()
	}
	return answer(r.Params.Name, envelope)
}

// answer converts the envelope of a tool to a result: as structure, and the same as text.
func answer(tool, envelope string) (mcp.Result, error) {
	var e struct {
		OK      bool
		Kind    fault.Kind
		Message string
	}
	if err := json.Unmarshal([]byte(envelope), &e); err != nil {
		return nil, refusal(fault.New(fault.Execution, "read answer of tool", tool, err))
	}
	if e.Kind == fault.ToolNotFound {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Message}
	}
	text := shorten(envelope)
	return &mcp.CallToolResult{IsError: !e.OK, StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// progress sends progress notifications. Tools count different things on the way (bytes,
// steps), but progress must only grow, so it counts the notifications.
type progress struct {
	session *mcp.ServerSession
	ctx     context.Context
	token   any
	pace    rate.Sometimes
	told    float64
}

func (p *progress) tell(news *controlpb.ToolProgress) {
	p.pace.Do(func() { // one at a time
		text := printable.Clip(news.Text)
		if news.Total > 0 {
			text = fmt.Sprintf("%s (%.0f %%)", text, 100*min(news.Done/news.Total, 1))
		}
		p.told++
		// A client that misses it gets the result, or has disconnected.
		_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Message: text, Progress: p.told})
	})
}

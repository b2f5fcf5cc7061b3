package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

const (
	// turnKey and conversationKey are where a client says which of its answers a call
	// is for, and in which conversation, in the request's _meta. They are texts.
	turnKey         = "ai.osaurus/turn"
	conversationKey = "ai.osaurus/session"
	// progressPace is how often a client is told how far a call is, at most: people
	// see no more, and programs print a line each time.
	progressPace = 100 * time.Millisecond
)

// call calls a tool. That it failed is part of the result: the model can mend it.
func (s *session) call(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	turn, _ := r.Params.Meta[turnKey].(string)
	conversation, _ := r.Params.Meta[conversationKey].(string)
	c := Call{Agent: s.agent, Tool: r.Params.Name, Arguments: r.Params.Arguments, Turn: turn, Conversation: conversation}
	if token := r.Params.GetProgressToken(); token != nil {
		c.Tell = (&progress{session: r.Session, ctx: ctx, token: token}).tell
	}
	envelope, err := s.Sandbox.Call(ctx, c)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		failed := &tools.Failure{Kind: fault.KindOf(err), Message: refusal(err).Error()}
		failed.Final = failed.Kind == fault.Execution // what became of it is not known
		envelope = Envelope(tools.Envelope{Tool: tools.Name(c.Tool), Failure: failed}.Text())
	}
	return s.answer(c, envelope)
}

// answer is an envelope as the protocol has it: as structure, and the same as text.
func (s *session) answer(c Call, envelope Envelope) (mcp.Result, error) {
	var e struct {
		OK      bool
		Kind    fault.Kind
		Message string
	}
	if err := json.Unmarshal([]byte(envelope), &e); err != nil {
		return nil, refusal(fault.New(fault.Execution, "read answer of tool", c.Tool, err))
	}
	if e.Kind == fault.ToolNotFound {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Message}
	}
	result := &mcp.CallToolResult{IsError: !e.OK}
	if short, cut := shorten(envelope); cut {
		link := s.results.keep(s.agent.ID, c.Tool, envelope)
		envelope, result.Content = short, append(result.Content, link)
	}
	result.StructuredContent = json.RawMessage(envelope)
	result.Content = append([]mcp.Content{&mcp.TextContent{Text: string(envelope)}}, result.Content...)
	return result, nil
}

// progress tells a client how far a call is. What is counted changes on the way
// (bytes of a download, steps of an install), so what only grows is the number of
// times that something was told.
type progress struct {
	session *mcp.ServerSession
	ctx     context.Context
	token   any

	mu   sync.Mutex
	told float64
	last time.Time
}

func (p *progress) tell(news tools.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < progressPace {
		return
	}
	text := printable.Clip(news.Text)
	if news.Total > 0 {
		text = fmt.Sprintf("%s (%.0f %%)", text, 100*min(news.Done/news.Total, 1))
	}
	p.told, p.last = p.told+1, time.Now()
	// Who does not hear it gets the result, or has left.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Message: text, Progress: p.told})
}

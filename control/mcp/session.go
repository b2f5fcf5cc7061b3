package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

// Methods that the SDK does not handle alone.
const (
	initialize = "initialize"
	discover   = "server/discover"
	listTools  = "tools/list"
	callTool   = "tools/call"
	listen     = "subscriptions/listen"
	listened   = "notifications/subscriptions/acknowledged"
	cancelled  = "notifications/cancelled"
)

// Options configure sessions.
type Options struct {
	Sandbox Sandbox
	// Agent is the name or id of the agent. Empty is the agent that is named after the
	// client.
	Agent config.AgentName
	// Profile selects the tools that are listed. The client may call all.
	Profile tools.Profile
	// Program is the command of this program, and Version its version.
	Program, Version string
	Log              *slog.Logger
}

// session is one client, or with the protocol of 2026-07-28 over HTTP one request.
type session struct {
	Options
	life   *life         // when it ends, so do calls
	open   *atomic.Int32 // counts sessions of older protocols over HTTP; or nil
	server *mcp.Server

	turn   sync.Mutex       // held while the agent is looked up or its tools are
	client string           // its own name
	agent  *controlpb.Agent // once it is known
	shown  string           // the tools that were last looked at; empty is none yet
}

// newSession returns a session with a server of the SDK.
func newSession(l *life, o Options) *session {
	s := &session{Options: o, life: l}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "osaurus-sandbox", Title: "Osaurus Sandbox", Version: o.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	s.server.AddReceivingMiddleware(s.receive)
	s.server.AddSendingMiddleware(s.send)
	return s
}

// receive handles requests about the sandbox, and leaves the rest to the SDK.
func (s *session) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		asked := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		defer func() {
			if asked.Err() != nil {
				leaveUnanswered(r)
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				s.Log.Error("the server of MCP panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; see the daemon's log"}
			}
		}()
		switch method {
		case initialize, discover, listTools, callTool, listen:
			if err := s.recognize(ctx, r); err != nil {
				return nil, refusal(err)
			}
		}
		switch method {
		case initialize, discover:
			return s.greet(ctx, method, r, next)
		case listTools:
			return s.list(ctx, method, r, next)
		case callTool:
			return s.call(ctx, r.(*mcp.CallToolRequest))
		}
		return next(ctx, method, r)
	}
}

// leaveUnanswered keeps the SDK from answering a cancelled request over HTTP: it ends the
// stream that the answer would go to. Before 2025-06-18 that stream may have the answers
// of a whole batch, and stays. Over stdio, lines drops the answer.
func leaveUnanswered(r mcp.Request) {
	if e := r.GetExtra(); e != nil && e.CloseSSEStream != nil && e.Header.Get(versionHeader) >= noBatches {
		e.CloseSSEStream(mcp.CloseSSEStreamArgs{})
	}
}

// send starts watching once the SDK can notify a client that listens.
func (s *session) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if err == nil && method == listened {
			s.life.do(func() { s.watch(ctx) })
		}
		return result, err
	}
}

// recognize finds the agent of this session with its first request. A client that named no
// agent gets the one that is named after it.
func (s *session) recognize(ctx context.Context, r mcp.Request) (err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.agent != nil {
		return nil
	}
	s.client = clientOf(r)
	name := string(cmp.Or(s.Agent, agentOf(s.client)))
	if s.agent, err = s.Sandbox.Agent(ctx, s.client, name); s.Agent != "" || fault.KindOf(err) != fault.NotFound {
		return err
	}
	made := s.Sandbox.Create(ctx, s.client, name)
	if s.agent, err = s.Sandbox.Agent(ctx, s.client, name); err != nil && made != nil {
		return made // otherwise another session has created it
	}
	return err
}

// clientOf returns the client of a request.
func clientOf(r mcp.Request) string {
	var info *mcp.Implementation
	if p, ok := r.GetParams().(*mcp.InitializeParams); ok {
		info = p.ClientInfo
	} else if named, ok := r.(interface{ ClientInfo() *mcp.Implementation }); ok {
		info = named.ClientInfo()
	}
	if info == nil {
		return ""
	}
	return printable.First(printable.Text(info.Name), maxClient)
}

// greet adds instructions to the server's greeting.
func (s *session) greet(ctx context.Context, method string, r mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, r)
	switch hello := result.(type) {
	case *mcp.InitializeResult:
		hello.Instructions = s.instructions()
		s.follow(r.GetSession().(*mcp.ServerSession))
	case *mcp.DiscoverResult:
		hello.Instructions = s.instructions()
	}
	return result, err
}

// instructions returns what the model should know.
func (s *session) instructions() string {
	a := s.agent
	text := fmt.Sprintf("A Linux sandbox on the user's computer. You work in it as the agent %q. Your home folder is %s; the user finds it at %s.",
		a.Name, a.Home, a.Folder)
	mayExec := func(setting *controlpb.Setting) bool {
		return setting.Key == string(tools.Exec) && setting.Value == "true"
	}
	if !slices.ContainsFunc(a.Settings, mayExec) {
		text += fmt.Sprintf(" So far you may only read. The user lets you do more with this command, which you should not run yourself: %s agent set %s autonomousExec.enabled=true",
			s.Program, a.Name)
	}
	text += " What you run and write with tools of other servers, or of the app itself, is not in the sandbox: for what belongs there, use the tools of this one."
	return text + " Never ask for a password or key in the conversation: call sandbox_secret_set without a value, and the user is asked elsewhere."
}

// refusal returns an error of the protocol, for failures that are not the model's.
func refusal(err error) error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	text := err.Error()
	if advice := fault.AdviceOf(err); advice != "" {
		text += ". " + advice
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}
}

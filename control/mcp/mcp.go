// Package mcp shows the tools of agents to clients of the Model Context Protocol, over standard streams and over HTTP.
package mcp

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/tools"
)

// Sandbox is what is shown. Its methods may be called from any goroutine, and
// their errors are *fault.Error.
type Sandbox interface {
	// Agent finds an agent.
	Agent(ctx context.Context, who Client, name config.AgentName) (Agent, error)
	// AgentFor finds the agent of a client that named none, and makes it if there
	// is none. It may then change nothing: that takes a person.
	AgentFor(ctx context.Context, who Client) (Agent, error)
	// Tools are those that an agent may call, always in the same order.
	Tools(ctx context.Context, a Agent, p tools.Profile) ([]*controlpb.Tool, error)
	// Call calls a tool and returns its envelope. When the context ends, so does the
	// tool, with all that it runs.
	Call(ctx context.Context, c Call) (Envelope, error)
	// Watch calls changed at once, and whenever the tools of an agent may be others,
	// until the context ends.
	Watch(ctx context.Context, a Agent, changed func())
}

// Client is who is at the other end, as it says itself: "claude-code".
type Client string

// Agent is for whom tools are called.
type Agent struct {
	Client Client
	ID     config.AgentID
	Name   config.AgentName
	Home   string // in the guest
	Folder string // its home folder on this computer
	Exec   bool   // it may change something
}

// Call is one call.
type Call struct {
	Agent     Agent
	Tool      string
	Arguments json.RawMessage
	Turn      string
	// Conversation is what artifacts are kept under; empty for none.
	Conversation string
	// Tell, if not nil, is told how far it is.
	Tell func(tools.Progress)
}

// Envelope is the text that a call answers with: see docs/tools.md.
type Envelope string

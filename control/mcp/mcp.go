// Package mcp offers the tools of agents to clients of the Model Context Protocol, over stdio and HTTP.
package mcp

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/tools"
)

// Sandbox has the agents and their tools. Its methods may be called from any goroutine,
// and their errors are *fault.Error.
type Sandbox interface {
	// Agent finds an agent.
	Agent(ctx context.Context, who Client, name config.AgentName) (Agent, error)
	// AgentFor finds the agent of a client that named none, or creates it. A new agent
	// may only read until a person allows more.
	AgentFor(ctx context.Context, who Client) (Agent, error)
	// Tools returns the tools that an agent may call, by name.
	Tools(ctx context.Context, a Agent, p tools.Profile) ([]*controlpb.Tool, error)
	// Call calls a tool and returns its envelope. The end of the context ends the tool
	// and its processes.
	Call(ctx context.Context, c Call) (Envelope, error)
	// Watch calls changed now and whenever the tools of an agent may have changed, until
	// the context ends.
	Watch(ctx context.Context, a Agent, changed func())
}

// Client is a client's own name: "claude-code".
type Client string

// Agent is the agent whose tools are called.
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
	// Conversation groups artifacts; it may be empty.
	Conversation string
	// Tell, if not nil, is called with progress.
	Tell func(tools.Progress)
}

// Envelope is the text of a result: see docs/tools.md.
type Envelope string

// Package mcp offers the tools of agents to clients of the Model Context Protocol, over stdio and HTTP.
package mcp

import (
	"context"

	"osaurus-sandbox/control/controlpb"
)

// Sandbox has the agents and their tools. Its methods may be called from any goroutine,
// and their errors are *fault.Error. Client is a client's own name, for the audit.
type Sandbox interface {
	// Agent finds an agent by its name or id.
	Agent(ctx context.Context, client, ref string) (*controlpb.Agent, error)
	// Create creates an agent, which may only read until a person allows more.
	Create(ctx context.Context, client, name string) error
	// Tools returns the tools that an agent may call, by name.
	Tools(ctx context.Context, client string, r *controlpb.ListToolsRequest) ([]*controlpb.Tool, error)
	// Call calls a tool and returns its envelope (docs/tools.md). It calls tell, if not nil,
	// with progress. The end of the context ends the tool and its processes.
	Call(ctx context.Context, client string, r *controlpb.CallToolRequest, tell func(*controlpb.ToolProgress)) (envelope string, err error)
	// Watch calls changed now and whenever the tools of an agent may have changed, until
	// the context ends.
	Watch(ctx context.Context, client, agent string, changed func())
}

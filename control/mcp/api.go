package mcp

import (
	"cmp"
	"context"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

// again is how often a watcher looks for a daemon when there is none.
const again = 2 * time.Second

// API implements Sandbox by the control API. It connects for every call, so that it
// outlives the daemon.
type API struct {
	// Connect connects to the daemon, and starts it if necessary. The name is for the
	// audit.
	Connect func(ctx context.Context, name string) (*control.Client, error)
	// Find connects to a running daemon.
	Find func(ctx context.Context, name string) (*control.Client, error)
}

var _ Sandbox = (*API)(nil)

// ask calls do with a connection to the daemon.
func ask[T any](ctx context.Context, a API, client string, do func(*control.Client) (T, error)) (answer T, err error) {
	daemon, err := a.Connect(ctx, auditName(client))
	if err != nil {
		return answer, err
	}
	defer daemon.Close()
	return do(daemon)
}

// auditName returns the name of a client in the audit.
func auditName(client string) string { return cmp.Or(client, "a client") + " over MCP" }

func (a API) Agent(ctx context.Context, client, ref string) (*controlpb.Agent, error) {
	return ask(ctx, a, client, func(c *control.Client) (*controlpb.Agent, error) {
		r, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: ref})
		return r.GetAgent(), err
	})
}

func (a API) Create(ctx context.Context, client, name string) error {
	_, err := ask(ctx, a, client, func(c *control.Client) (*controlpb.CreateAgentResponse, error) {
		return c.Agents.Create(ctx, &controlpb.CreateAgentRequest{Name: name})
	})
	return err
}

func (a API) Tools(ctx context.Context, client string, r *controlpb.ListToolsRequest) ([]*controlpb.Tool, error) {
	return ask(ctx, a, client, func(c *control.Client) ([]*controlpb.Tool, error) {
		list, err := c.Tools.List(ctx, r)
		return list.GetTools(), err
	})
}

func (a API) Call(ctx context.Context, client string, r *controlpb.CallToolRequest, tell func(*controlpb.ToolProgress)) (string, error) {
	return ask(ctx, a, client, func(c *control.Client) (string, error) { return c.CallTool(ctx, r, tell) })
}

// Watch implements Sandbox. It does not start a daemon.
func (a API) Watch(ctx context.Context, client, agent string, changed func()) {
	for ctx.Err() == nil {
		a.watch(ctx, client, agent, changed)
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// watch watches until the daemon ends.
func (a API) watch(ctx context.Context, client, agent string, changed func()) {
	daemon, err := a.Find(ctx, auditName(client))
	if err != nil {
		return
	}
	defer daemon.Close()
	for _, err := range control.Messages(daemon.Tools.Watch(ctx, &controlpb.WatchToolsRequest{Agent: agent})) {
		if err == nil {
			changed()
		}
	}
}

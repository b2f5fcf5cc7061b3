package mcp

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

const (
	// again is how often a watcher looks for a daemon when there is none.
	again = 2 * time.Second
	// lookLimit is how long a daemon may take for answers from memory.
	lookLimit = 30 * time.Second
)

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

// with calls do with a connection to the daemon.
func (a API) with(ctx context.Context, who Client, do func(context.Context, *control.Client) error) error {
	client, err := a.Connect(ctx, auditName(who))
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client)
}

// auditName returns the name of a client in the audit.
func auditName(who Client) string { return string(cmp.Or(who, "a client")) + " over MCP" }

func (a API) Agent(ctx context.Context, who Client, name config.AgentName) (found Agent, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	err = a.with(ctx, who, func(ctx context.Context, client *control.Client) error {
		r, err := client.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: string(name)})
		if err == nil {
			found = agentFrom(who, r.Agent)
		}
		return err
	})
	return found, err
}

func (a API) AgentFor(ctx context.Context, who Client) (Agent, error) {
	name := agentOf(who)
	found, err := a.Agent(ctx, who, name)
	if fault.KindOf(err) != fault.NotFound {
		return found, err
	}
	made := a.with(ctx, who, func(ctx context.Context, client *control.Client) error {
		_, err := client.Agents.Create(ctx, &controlpb.CreateAgentRequest{Name: string(name)})
		return err
	})
	if found, err = a.Agent(ctx, who, name); err != nil && made != nil {
		return Agent{}, made // another call may have created it
	}
	return found, err
}

func agentFrom(who Client, a *controlpb.Agent) Agent {
	found := Agent{Client: who, ID: config.AgentID(a.Id), Name: config.AgentName(a.Name), Home: a.Home, Folder: a.Folder}
	for _, s := range a.Settings {
		if s.Key == string(tools.Exec) {
			found.Exec, _ = strconv.ParseBool(s.Value)
		}
	}
	return found
}

func (a API) Tools(ctx context.Context, agent Agent, p tools.Profile) (list []*controlpb.Tool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	err = a.with(ctx, agent.Client, func(ctx context.Context, client *control.Client) error {
		r, err := client.Tools.List(ctx, &controlpb.ListToolsRequest{Agent: string(agent.ID), Lean: p == tools.Lean})
		list = r.GetTools()
		return err
	})
	return list, err
}

func (a API) Call(ctx context.Context, c Call) (envelope Envelope, err error) {
	err = a.with(ctx, c.Agent.Client, func(ctx context.Context, client *control.Client) error {
		text, err := client.CallTool(ctx, &controlpb.CallToolRequest{
			Agent: string(c.Agent.ID), Tool: c.Tool, Arguments: string(c.Arguments), Turn: c.Turn, Session: c.Conversation,
		}, func(p *controlpb.ToolProgress) {
			if c.Tell != nil {
				c.Tell(tools.Progress{Text: p.Text, Done: p.Done, Total: p.Total})
			}
		})
		envelope = Envelope(text)
		return err
	})
	return envelope, err
}

// Watch implements Sandbox. It does not start a daemon.
func (a API) Watch(ctx context.Context, agent Agent, changed func()) {
	for ctx.Err() == nil {
		a.watch(ctx, agent, changed)
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// watch watches until the daemon ends.
func (a API) watch(ctx context.Context, agent Agent, changed func()) {
	client, err := a.Find(ctx, auditName(agent.Client))
	if err != nil {
		return
	}
	defer client.Close()
	for _, err := range control.Messages(client.Tools.Watch(ctx, &controlpb.WatchToolsRequest{Agent: string(agent.ID)})) {
		if err == nil {
			changed()
		}
	}
}

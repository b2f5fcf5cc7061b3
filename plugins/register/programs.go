package register

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// Programs are how programs of agents register, at the bridge.
type Programs struct {
	*Registrar
	// Agent is an agent as tools know it.
	Agent func(config.AgentID) (tools.Agent, error)
	// Has reports whether an agent has a plugin, or it is being made.
	Has func(agent config.AgentID, plugin config.PluginID) bool
}

var _ bridge.Plugins = Programs{}

func (p Programs) Installed(agent config.AgentID, plugin config.PluginID) bool {
	return p.Has(agent, plugin)
}

func (p Programs) Create(ctx context.Context, who bridge.Caller, recipe json.RawMessage) (bridge.Created, error) {
	a, err := p.Agent(who.Agent)
	if err != nil {
		return bridge.Created{}, err
	}
	if err := tools.Plugins.Check("making plugins", a); err != nil {
		return bridge.Created{}, fault.New(fault.Rejected, op, "", err)
	}
	r, err := Read(recipe)
	if err != nil {
		return bridge.Created{}, err
	}
	made, err := p.Register(ctx, a, r, Bridge, nil)
	if err != nil {
		return bridge.Created{}, err
	}
	out := bridge.Created{Status: installed, ID: made.ID, Name: made.Name, Warnings: made.Caveats}
	for _, t := range made.Tools {
		out.Tools = append(out.Tools, bridge.CreatedTool{Name: string(t.Name), Description: t.Description})
	}
	return out, nil
}

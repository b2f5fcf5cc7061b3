package register

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// Programs registers plugins for programs in rooms. It implements bridge.Plugins.
type Programs struct {
	*Registrar
	// Agent looks up an agent.
	Agent func(config.AgentID) (tools.Agent, error)
	// Has reports whether an agent has a plugin or is just getting it.
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
	return p.Register(ctx, a, r, Bridge, nil)
}

package install

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// key identifies a plugin of an agent.
type key struct {
	agent  config.AgentID
	plugin config.PluginID
}

// turn waits until no other change of a plugin runs. Calling end lets the next one run.
func (i *Installer) turn(ctx context.Context, op string, a tools.Agent, plugin config.PluginID) (end func(), err error) {
	end, err = i.turns.Take(ctx, key{a.ID, plugin}, nil)
	if err != nil {
		return nil, fault.Newf(fault.KindOf(err), op, string(plugin), "another change of it is running: %w", err).Advise("See `osaurus-sandbox plugin status`, and try again.")
	}
	return end, nil
}

// waitTurn waits until no change of a plugin runs.
func (i *Installer) waitTurn(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	end, err := i.turn(ctx, "call plugin", a, plugin)
	if err == nil {
		end()
	}
	return err
}

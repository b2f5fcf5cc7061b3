package life

import (
	"context"
	"encoding/json"
	"errors"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// Permits says what plugins may ask of the host, by their recipes.
type Permits struct {
	// Recipe returns the recipe of an agent's plugin, even while it is being installed.
	Recipe func(agent config.AgentID, plugin config.PluginID) (plugins.Recipe, bool)
}

// Declared returns the secrets that a plugin may read.
func (p Permits) Declared(agent config.AgentID, plugin config.PluginID) (names []config.SecretName, installed bool) {
	r, ok := p.Recipe(agent, plugin)
	return r.Secrets, ok
}

// MayInfer reports whether a plugin may ask models, and whether the agent has the plugin.
func (p Permits) MayInfer(agent config.AgentID, plugin config.PluginID) (may, installed bool) {
	r, ok := p.Recipe(agent, plugin)
	return r.Permissions.Inference, ok
}

// Hosts returns the only hosts that a plugin's commands may reach, or nil for all that its agent
// reaches.
func (p Permits) Hosts(agent config.AgentID, plugin config.PluginID) []string {
	r, _ := p.Recipe(agent, plugin)
	if r.Permissions.Network == plugins.NetworkOutbound {
		return nil
	}
	return append([]string{}, r.Permissions.Network.Domains()...)
}

// Emitting wraps events so that a plugin can emit only its declared topics.
func (p Permits) Emitting(to bridge.Events) bridge.Events { return emitter{p, to} }

type emitter struct {
	permits Permits
	to      bridge.Events
}

// Emit implements bridge.Events.
func (e emitter) Emit(ctx context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) error {
	if r, installed := e.permits.Recipe(who.Agent, who.Plugin); who.Plugin != "" && installed && !r.Events.May(topic) {
		return fault.New(fault.Rejected, "emit event", string(topic), errors.New("the plugin "+string(who.Plugin)+" may not")).
			Advise(`Add the type to "emit" in "events" of the plugin's recipe.`)
	}
	return e.to.Emit(ctx, who, topic, payload)
}

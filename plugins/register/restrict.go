package register

import (
	"fmt"
	"maps"
	"slices"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/tools"
)

// Metadata of plugins that agents made.
const (
	createdBy  = "created_by"
	createdVia = "created_via"
	createdFor = "created_for" // the agent's id
	byAgent    = "agent"
)

// restrict removes permissions that an agent may not give itself: all network but a list of exact
// hosts, and inference. It records who made the plugin, and returns what it changed.
func restrict(r plugins.Recipe, a tools.Agent, via Via) (_ plugins.Recipe, changes []string) {
	network := plugins.NetworkNone
	domains := r.Permissions.Network.Domains()
	if len(domains) > 0 && !slices.ContainsFunc(domains, func(d string) bool { return !plugins.IsDomain(d) }) {
		network = r.Permissions.Network
	}
	if said := r.Permissions.Network; said != network && said != plugins.NetworkUnsaid {
		changes = append(changes, fmt.Sprintf("A plugin that an agent made gets no network unless it lists exact hosts: %q became %q.", said, network))
	}
	if r.Permissions.Inference {
		changes = append(changes, "A plugin that an agent made cannot ask models: \"inference\" became false.")
	}
	r.Permissions.Network, r.Permissions.Inference = network, false
	r.Metadata = maps.Clone(r.Metadata)
	if r.Metadata == nil {
		r.Metadata = map[string]any{}
	}
	maps.Copy(r.Metadata, map[string]any{createdBy: byAgent, createdVia: string(via), createdFor: string(a.ID)})
	return r, changes
}

// replaceable refuses to replace a plugin that the agent did not make.
func replaceable(old library.Entry, a tools.Agent) error {
	if m := old.Recipe.Metadata; m[createdBy] == byAgent && m[createdFor] == string(a.ID) {
		return nil
	}
	return fault.Newf(fault.Rejected, op, string(old.ID), "a plugin of this name exists, and this agent did not make it").
		Advise("Give it another name. A person can remove the other: osaurus-sandbox plugin remove " + string(old.ID))
}

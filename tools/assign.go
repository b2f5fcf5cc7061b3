package tools

import (
	"cmp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Assign replaces the tools that a plugin gives an agent. If any name is taken, it fails and
// changes nothing.
func (r *Registry) Assign(agent config.AgentID, plugin config.PluginID, list ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.free(agent, plugin, list); err != nil {
		return err
	}
	own := map[Name]Tool{}
	for name, t := range r.own[agent] {
		if t.plugin != plugin {
			own[name] = t
		}
	}
	for _, t := range list {
		t.Budget = cmp.Or(t.Budget, usualBudget)
		t.plugin = plugin
		own[t.Name] = t
	}
	if r.own[agent] = own; len(own) == 0 {
		delete(r.own, agent)
	}
	r.changed.Notify()
	return nil
}

// Free returns an error if Assign would refuse the tools.
func (r *Registry) Free(agent config.AgentID, plugin config.PluginID, list ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free(agent, plugin, list)
}

// free implements Free. The caller holds the mutex.
func (r *Registry) free(agent config.AgentID, plugin config.PluginID, list []Tool) error {
	for _, t := range list {
		other, taken := r.tools[t.Name]
		if !taken {
			other, taken = r.own[agent][t.Name]
		}
		if taken && other.plugin != plugin {
			owner := cmp.Or(string(other.plugin), "the sandbox")
			return fault.Newf(fault.Rejected, "register tool", quoted(string(t.Name)), "%s has a tool of that name", owner).Advise("Give the tool, or its plugin, another name.")
		}
	}
	return nil
}

package tools

import (
	"cmp"
	"errors"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// reserved is the prefix of the sandbox's own tools, present and future.
const reserved = "sandbox_"

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
	const op = "register tool"
	refuse := func(kind fault.Kind, name Name, why string) error {
		return fault.New(kind, op, quoted(string(name)), errors.New(why)).Advise("Give the tool, or its plugin, another name.")
	}
	seen, others := map[Name]bool{}, 0
	for _, t := range r.own[agent] {
		if t.plugin != plugin {
			others++
		}
	}
	if len(list)+others > maxTools {
		return fault.Newf(fault.Rejected, op, string(plugin), "the agent would have more than %d tools of plugins", maxTools).Advise("Uninstall a plugin that it does not need.")
	}
	for _, t := range list {
		_, taken := r.tools[t.Name]
		other, there := r.own[agent][t.Name]
		switch {
		case !nameText.MatchString(string(t.Name)):
			return refuse(fault.InvalidArgs, t.Name, "no name for a tool")
		case taken, strings.HasPrefix(string(t.Name), reserved):
			return refuse(fault.Rejected, t.Name, "the name belongs to the sandbox's own tools")
		case there && other.plugin != plugin:
			return refuse(fault.Rejected, t.Name, "the plugin "+string(other.plugin)+" has a tool of that name")
		case seen[t.Name]:
			return refuse(fault.InvalidArgs, t.Name, "the plugin has two of that name")
		}
		seen[t.Name] = true
	}
	return nil
}

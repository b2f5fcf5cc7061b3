package pluginhost

import (
	"context"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// registered is the event of a plugin that an agent has written.
const registered events.Kind = "plugin.registered"

// newRegistrar returns the registrar of plugins that agents write.
func (b *Host) newRegistrar() *register.Registrar {
	return register.New(register.Options{
		Room: b.Tools.Room, Library: b.Library, Agent: b.agent, HasSecret: keys{b.Options}.Has,
		Has: func(agent config.AgentID, plugin config.PluginID) bool {
			_, has := b.Installer.Find(agent, plugin)
			return has
		},
		Running: func() bool { return b.machine().Status().State == machine.Running },
		Mirrors: b.mirrors,
		Install: func(ctx context.Context, a tools.Agent, r plugins.Recipe, via register.Via, tell func(string)) error {
			_, err := b.Installer.Install(ctx, a, r, install.How{By: string(via), Tell: func(p install.Progress) {
				tell(strings.TrimSpace(string(p.Step) + " " + p.Text))
			}})
			return err
		},
		Note: b.noteRegistered,
	})
}

// noteRegistered records what an agent has registered and how to remove it.
func (b *Host) noteRegistered(n register.Notice) {
	var names []string
	for _, t := range n.Made.Tools {
		names = append(names, string(t.Name))
	}
	clean := b.Tools.Vault.Redacted(n.Agent.ID)
	b.Record.Note(events.Event{Kind: registered, Cause: string(n.Via), Fields: map[string]string{
		"agent": string(n.Agent.Name), "id": string(n.Agent.ID), "plugin": string(n.Made.ID), "tools": clean.Text(strings.Join(names, " ")),
		"caveats": clean.Text(strings.Join(n.Made.Warnings, " ")), "remove": n.Remove(),
	}})
}

// mirrors returns the hosts of the package mirrors in the settings.
func (b *Host) mirrors() (hosts []string) {
	for _, m := range b.machine().Settings().Mirrors {
		hosts = append(hosts, plugins.Hosts(string(m))...)
	}
	return hosts
}

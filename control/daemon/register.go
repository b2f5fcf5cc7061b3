package daemon

import (
	"context"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/command"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/toolbench"
	"osaurus-sandbox/tools"
)

// pluginRegistered is the event of a plugin that an agent has made.
const pluginRegistered events.Kind = "plugin.registered"

// makeRegistrar has agents make plugins.
func (d *daemon) makeRegistrar(context.Context) error {
	d.registrar = register.New(register.Options{
		Files: toolbench.Files(d.bench), Library: d.library, Secrets: toolbench.PluginSecrets(d.bench, d.config),
		Running: func() bool { return d.sandbox.Status().State == supervisor.Running },
		Mirrors: d.mirrors,
		Install: func(ctx context.Context, a tools.Agent, e library.Entry, via register.Via, tell func(string)) error {
			_, err := d.plugins.Install(ctx, a, e.Recipe, install.How{By: string(via), Tell: func(p install.Progress) {
				tell(strings.TrimSpace(string(p.Step) + " " + p.Text))
			}})
			return err
		},
		Note: d.noteRegistered,
	})
	return d.tools.Add(d.registrar.Tool())
}

// noteRegistered tells whoever looks after the agent what it has made, and how to remove that.
func (d *daemon) noteRegistered(n register.Notice) {
	var names []string
	for _, t := range n.Made.Tools {
		names = append(names, string(t.Name))
	}
	clean := d.vault.Redacted(n.Agent.ID)
	d.diary.Note(events.Event{Kind: pluginRegistered, Cause: string(n.Via), Fields: map[string]string{
		"agent": string(n.Agent.Name), "id": string(n.Agent.ID), "plugin": string(n.Made.ID), "tools": clean.Text(strings.Join(names, " ")),
		"caveats": clean.Text(strings.Join(n.Made.Caveats, " ")), "remove": n.Remove(),
	}})
}

// programPlugins are the plugins that agents' programs make.
func (d *daemon) programPlugins() register.Programs {
	return register.Programs{
		Registrar: d.registrar,
		Agent: func(id config.AgentID) (tools.Agent, error) {
			a, err := d.agents.Get(string(id))
			return toolbench.AgentOf(a), err
		},
		Has: d.permits().Installed,
	}
}

// mirrors are the hosts that the settings have packages come from.
func (d *daemon) mirrors() (hosts []string) {
	for _, m := range d.sandbox.Settings().Mirrors {
		hosts = append(hosts, command.HostsIn(string(m))...)
	}
	return hosts
}

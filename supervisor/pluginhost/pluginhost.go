// Package pluginhost gives installed plugins access to their agent's room, secrets, tools and events.
package pluginhost

import (
	"log/slog"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/supervisor/events"

	"osaurus-sandbox/supervisor/toolhost"

	"osaurus-sandbox/tools"

	"osaurus-sandbox/supervisor/services"
)

// Options are the parts of the home.
type Options struct {
	Home config.Home
	// Tools is what tools act through. A plugin's are made in Registry.
	Tools    toolhost.Options
	Registry *tools.Registry
	Library  *library.Library
	Topics   *services.Topics
	Lines    *services.Logs
	Config   *services.PluginConfig
	Record   events.Recorder
	// Program is this program's release: see install.Options.
	Program string
	Log     *slog.Logger
}

// Host is the plugins of a home's agents: who installs them, who makes them of what
// agents write, and what they run by themselves.
type Host struct {
	Options
	Installer *install.Installer
	Registrar *register.Registrar

	life  *life.Life
	watch *watch
}

// Open has the plugins of agents be there, with their tools and with the one that makes
// more. Close comes before the agents' and the terminals'.
func Open(o Options) (*Host, error) {
	b := &Host{Options: o}
	b.life = b.newLife()
	var all []config.AgentID
	for _, a := range o.Tools.Agents.List() {
		all = append(all, a.ID)
	}
	b.Installer = install.Open(install.Options{
		Home: o.Home, Rooms: rooms{b.Options}, Packages: o.Tools.Installer, Secrets: keys{o}, Registry: o.Registry, Life: b.life,
		Note: func(h install.Happening) { b.note(events.Kind(h.What), h.By, h.Agent, h.Plugin, h.Detail) }, Program: o.Program, Log: o.Log,
	}, all)
	b.watch = newWatch(b, lookAgain)
	b.Registrar = b.newRegistrar()
	if err := o.Registry.Add(b.Registrar.Tool()); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends what goes on by itself.
func (b *Host) Close() {
	b.watch.close()
	b.Installer.Close()
	b.life.Close()
}

// note takes note of what became of an agent's plugin.
func (b *Host) note(kind events.Kind, by string, a tools.Agent, plugin config.PluginID, detail string) {
	b.Record.Note(events.Event{Kind: kind, Cause: by, Fields: map[string]string{
		"agent": string(a.Name), "id": string(a.ID), "plugin": string(plugin), "detail": detail,
	}})
}

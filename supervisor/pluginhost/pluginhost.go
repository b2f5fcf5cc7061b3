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
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// Options configure Host.
type Options struct {
	Home config.Home
	// Tools configures the tools of plugins, which are added to Registry.
	Tools    toolhost.Options
	Registry *tools.Registry
	Library  *library.Library
	Topics   *services.Topics
	Lines    *services.Logs
	Config   *services.PluginConfig
	Record   events.Recorder
	Log      *slog.Logger
}

// Host installs, registers and runs the plugins of a home's agents.
type Host struct {
	Options
	Installer *install.Installer
	Registrar *register.Registrar

	life  *life.Life
	watch *watch
}

// Open loads the installed plugins and adds their tools and the registration tool. Close it
// before the agents and their sessions.
func Open(o Options) *Host {
	b := &Host{Options: o}
	b.life = b.newLife()
	var all []config.AgentID
	for _, a := range o.Tools.Agents.List() {
		all = append(all, a.ID)
	}
	b.Installer = install.Open(install.Options{
		Home: o.Home, Agent: o.agent, Start: o.start, Boot: o.boot, Room: o.Tools.Room, Packages: o.Tools.Installer.System, Secrets: keys{o}, Registry: o.Registry, Life: b.life,
		Note: func(h install.Happening) { b.note(events.Kind(h.What), h.By, h.Agent, h.Plugin, h.Detail) }, Log: o.Log,
	}, all)
	b.watch = newWatch(b)
	b.Registrar = b.newRegistrar()
	o.Registry.Add(b.Registrar.Tool())
	return b
}

// Close ends background work.
func (b *Host) Close() {
	b.watch.close()
	b.Installer.Close()
	b.life.Close()
}

// note records an event of an agent's plugin.
func (b *Host) note(kind events.Kind, by string, a tools.Agent, plugin config.PluginID, detail string) {
	b.Record.Note(events.Event{Kind: kind, Cause: by, Fields: map[string]string{
		"agent": string(a.Name), "id": string(a.ID), "plugin": string(plugin), "detail": detail,
	}})
}

// Package toolhost gives tools access to their agent's room, secrets, prompts and artifacts.
package toolhost

import (
	"context"
	"log/slog"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/tools"
)

// by is the cause of events.
const by machine.Cause = "a tool"

// Options configure the tools.
type Options struct {
	Agents      *agents.Agents
	Sessions    *sessions.Manager
	Vault       *vault.Vault
	Prompts     *prompts.Broker
	Artifacts   *artifacts.Artifacts
	Checkpoints *checkpoints.Checkpoints
	Mounts      tools.Mounts
	// Installer installs packages, for tools and for plugins: see NewInstaller.
	Installer *tools.Installer
	Log       *slog.Logger
}

// NewInstaller returns what installs packages in the rooms of a home's agents.
func NewInstaller(a *agents.Agents) *tools.Installer {
	i := tools.NewInstaller(func(agent tools.Agent) engine.Executor { return a.Room(string(agent.ID)) })
	i.Snapshot = func(ctx context.Context, agent tools.Agent) error {
		_, err := a.ChangeSnapshot(ctx, string(agent.ID), engine.CreateSnapshot, agents.BeforeInstall, false, by)
		return err
	}
	return i
}

// New returns the tools of a home.
func New(o Options) *tools.Registry {
	r := tools.NewRegistry(o.Log, tools.Sandbox(tools.Host{Rooms: o.Room, Secrets: keys{o}, Installer: o.Installer, Artifacts: o.Artifacts, History: past{o}, Mounts: o.Mounts})...)
	r.Starting = func(a tools.Agent) tools.Starting { return starting{o.Agents.Machines.For(a.ID)} }
	r.Redactor = func(ctx context.Context, a tools.Agent) tools.Redact {
		agent, err := o.Agents.Get(string(a.ID))
		if err != nil {
			return nil
		}
		if clean := o.Agents.Redact(ctx, agent).Scrubber(); clean != nil {
			return clean.Excerpt // tools cut what they read before it gets here
		}
		return nil
	}
	return r
}

// Room returns the room of an agent.
func (o Options) Room(a tools.Agent) engine.Room { return o.Sessions.Room(string(a.ID), by) }

// RunningRoom returns the room of an agent in the guest that runs.
func (o Options) RunningRoom(a tools.Agent) engine.Room {
	return o.Sessions.RunningRoom(string(a.ID), by)
}

// AgentOf returns an agent as tools know it.
func AgentOf(a agents.Agent) tools.Agent {
	return tools.Agent{ID: a.ID, Name: a.Name, User: a.User, Home: a.Home(), Settings: a.Settings}
}

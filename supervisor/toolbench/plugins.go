package toolbench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/pluginconfig"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// PluginRooms is where a home's agents have their plugins.
func PluginRooms(o Options) install.Rooms { return pluginRooms{rooms{o}, files{o}} }

type pluginRooms struct {
	rooms
	files
}

// Agent is an agent as tools know it.
func (r pluginRooms) Agent(id config.AgentID) (tools.Agent, error) {
	a, err := r.rooms.Agents.Get(string(id))
	return AgentOf(a), err
}

// Start has the guest run.
func (r pluginRooms) Start(ctx context.Context) error {
	l, err := r.rooms.Agents.Sandbox.Borrow(ctx)
	if err == nil {
		l.Return()
	}
	return err
}

// Boot is when the guest that runs has started.
func (r pluginRooms) Boot() string {
	if s := r.rooms.Agents.Sandbox.Status(); s.State == supervisor.Running {
		return fmt.Sprint(s.StartedAt.UnixNano())
	}
	return ""
}

func (r pluginRooms) Exec(ctx context.Context, a tools.Agent, cmd guest.Command) (guest.Running, error) {
	return r.rooms.Exec(ctx, a, cmd)
}

// PluginSecrets are those of a home's plugins, with what plugins remember.
func PluginSecrets(o Options, c *pluginconfig.Config) install.Secrets { return pluginSecrets{o, c} }

type pluginSecrets struct {
	Options
	config *pluginconfig.Config
}

func (s pluginSecrets) Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error) {
	list, err := s.Vault.Names(ctx, a.ID)
	return slices.Contains(list, secrets.Key{Agent: a.ID, Plugin: plugin, Name: name}) || slices.Contains(list, key(a, name)), err
}

func (s pluginSecrets) Ask(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName, why string) error {
	k := secrets.Key{Agent: a.ID, Plugin: plugin, Name: name}
	return s.Prompts.Ask(ctx, prompts.Question{Secret: k, Name: a.Name, Text: why}, supervisor.Cause("the plugin "+plugin))
}

func (s pluginSecrets) Forget(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	err := s.config.Forget(ctx, a.ID, plugin)
	list, failed := s.Vault.List(ctx, a.ID)
	err = errors.Join(err, failed)
	for _, k := range list {
		if k.Plugin == plugin {
			err = errors.Join(err, s.Vault.Delete(ctx, k))
		}
	}
	return err
}

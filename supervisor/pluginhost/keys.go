package pluginhost

import (
	"context"
	"errors"
	"slices"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// keys implements install.Secrets with the vault and the plugins' stored values.
type keys struct{ Options }

var _ install.Secrets = keys{}

func (k keys) Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error) {
	list, err := k.Tools.Vault.Names(ctx, a.ID)
	return slices.Contains(list, secrets.Key{Agent: a.ID, Plugin: plugin, Name: name}) || slices.Contains(list, secrets.Key{Agent: a.ID, Name: name}), err
}

func (k keys) Ask(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName, why string) error {
	key := secrets.Key{Agent: a.ID, Plugin: plugin, Name: name}
	_, err := k.Tools.Prompts.Ask(ctx, prompts.Question{Secret: key, Name: a.Name, Text: why}, machine.Cause("the plugin "+plugin))
	return err
}

func (k keys) Forget(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	err := k.Config.Forget(ctx, a.ID, plugin)
	list, failed := k.Tools.Vault.List(ctx, a.ID)
	err = errors.Join(err, failed)
	for _, key := range list {
		if key.Plugin == plugin {
			err = errors.Join(err, k.Tools.Vault.Delete(ctx, key))
		}
	}
	return err
}

// values returns the secrets of a plugin, as NAME=value.
func (k keys) values(ctx context.Context, a tools.Agent, plugin config.PluginID, names []config.SecretName) ([]string, error) {
	return k.Tools.Vault.Environment(ctx, bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User, Plugin: plugin}, names)
}

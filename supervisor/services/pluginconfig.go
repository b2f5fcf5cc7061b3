package services

import (
	"context"
	"database/sql"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

const (
	MaxConfigValue = 64 << 10
	// MaxConfigKeys bounds the values of all plugins of an agent together, since
	// programs choose the plugin's name freely.
	MaxConfigKeys = 1_000
)

// PluginConfig stores the values of each agent's plugins. Deleting the agent deletes
// them. It implements bridge.Config.
type PluginConfig struct {
	db   *store.DB
	keys int // MaxConfigKeys, less in tests
}

var _ bridge.Config = (*PluginConfig)(nil)

func NewPluginConfig(db *store.DB) *PluginConfig { return &PluginConfig{db, MaxConfigKeys} }

// Get returns a value, or fault.NotFound if it was never set.
func (c *PluginConfig) Get(ctx context.Context, who bridge.Caller, key bridge.ConfigKey) (string, error) {
	const op = "get config"
	value, found, err := store.Find(ctx, c.db, op, store.Value[string],
		"SELECT value FROM plugin_config WHERE agent = ? AND plugin = ? AND key = ?", who.Agent, who.Plugin, key)
	if err == nil && !found {
		err = fault.Newf(fault.NotFound, op, string(key), "it was never set").Advise("Set it with: osaurus-host config set KEY VALUE")
	}
	return value, err
}

// Set stores a value durably.
func (c *PluginConfig) Set(ctx context.Context, who bridge.Caller, key bridge.ConfigKey, value string) error {
	const op = "set config"
	switch {
	case who.Plugin == "":
		return fault.Newf(fault.InvalidArgs, op, string(key), "no plugin is named").Advise("Set OSAURUS_PLUGIN.")
	case len(value) > MaxConfigValue:
		return fault.Newf(fault.InvalidArgs, op, string(key), "%d bytes are more than the %d allowed", len(value), MaxConfigValue).Advise("Store it in a file in the agent's home.")
	}
	return c.db.Write(ctx, op, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO plugin_config (agent, plugin, key, value) VALUES (?, ?, ?, ?)
			ON CONFLICT (agent, plugin, key) DO UPDATE SET value = excluded.value`, who.Agent, who.Plugin, key, value); err != nil {
			return err
		}
		var keys int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM plugin_config WHERE agent = ?", who.Agent).Scan(&keys); err != nil {
			return err
		}
		if keys > c.keys {
			return fault.Newf(fault.Rejected, op, string(key), "the agent's plugins have %d values already", c.keys).Advise("Use an existing key.")
		}
		return nil
	})
}

// Forget removes all values of an agent's plugin.
func (c *PluginConfig) Forget(ctx context.Context, agent config.AgentID, plugin config.PluginID) error {
	_, err := c.db.Exec(ctx, "forget config", "DELETE FROM plugin_config WHERE agent = ? AND plugin = ?", agent, plugin)
	return err
}

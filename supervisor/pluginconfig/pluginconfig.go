// Package pluginconfig keeps what plugins remember of themselves, apart for each agent and each plugin.
package pluginconfig

import (
	"context"
	"database/sql"
	"errors"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

const (
	// MaxValue bounds one value: it is a setting or a cursor, not a file. A
	// longer one is refused.
	MaxValue = 64 << 10
	// MaxKeys is how many values an agent's plugins keep in all: programs choose
	// their plugin's name freely, so a bound for each would be none. One more
	// is refused.
	MaxKeys = 1_000
)

// Config is the part of the database that holds what plugins remember. It goes
// with the agent. Config implements bridge.Config.
type Config struct {
	db   *store.DB
	keys int // at most, of an agent
}

var _ bridge.Config = (*Config)(nil)

// New returns what is kept in a database.
func New(db *store.DB) *Config { return &Config{db, MaxKeys} }

// Get returns the value that was last set. None is fault.NotFound.
func (c *Config) Get(ctx context.Context, who bridge.Caller, key bridge.ConfigKey) (value string, err error) {
	const op = "get config"
	err = c.db.Read(ctx, op, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT value FROM plugin_config WHERE agent = ? AND plugin = ? AND key = ?", who.Agent, who.Plugin, key).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Newf(fault.NotFound, op, string(key), "it was never set").Advise("Set it with: osaurus-host config set KEY VALUE")
		}
		return err
	})
	return value, err
}

// Set keeps a value, and returns when it is on the disk.
func (c *Config) Set(ctx context.Context, who bridge.Caller, key bridge.ConfigKey, value string) error {
	const op = "set config"
	switch {
	case who.Plugin == "":
		return fault.Newf(fault.InvalidArgs, op, string(key), "no plugin is named").Advise("Set OSAURUS_PLUGIN.")
	case len(value) > MaxValue:
		return fault.Newf(fault.InvalidArgs, op, string(key), "%d bytes are more than %d", len(value), MaxValue).Advise("Keep it in a file of the agent's home.")
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
			return fault.Newf(fault.Rejected, op, string(key), "the agent's plugins keep %d values already", c.keys).Advise("Use a key that is there.")
		}
		return nil
	})
}

// Forget removes all that a plugin of an agent remembers.
func (c *Config) Forget(ctx context.Context, agent config.AgentID, plugin config.PluginID) error {
	return c.db.Write(ctx, "forget config", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM plugin_config WHERE agent = ? AND plugin = ?", agent, plugin)
		return err
	})
}

// Package secrets defines the store that keeps agents' secrets, and a value type that never prints itself.
package secrets

import (
	"context"

	"osaurus-sandbox/config"
)

// Store keeps secrets. Implementations are in secrets/keychain, secrets/secretservice
// and secrets/agefile; secrets/secretstest tests this contract.
//
// Methods are safe for concurrent use and return soon after their context ends.
// A store can be opened even if it is locked or missing: its methods then fail
// with a Reason. It never falls back to another store.
//
// Methods return the error of Key.Check before they do anything. No error
// contains a value.
type Store interface {
	// Get returns a secret, or fails with Missing.
	Get(context.Context, Key) (Value, error)
	// Set stores a secret and replaces the previous one. After an error the key
	// has the old or the new value. The zero Value fails with fault.InvalidArgs.
	Set(context.Context, Key, Value) error
	// Delete removes a secret, or fails with Missing.
	Delete(context.Context, Key) error
	// List returns the keys of an agent's secrets in the order of Key.Compare.
	List(context.Context, config.AgentID) ([]Key, error)
	// Check describes the store in a few words, or returns why it cannot be used. It shows no
	// dialog and changes nothing.
	Check(context.Context) (string, error)
}

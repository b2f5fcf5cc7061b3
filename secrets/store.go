// Package secrets defines the store that keeps agents' secrets, and a value type that never prints itself.
package secrets

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"osaurus-sandbox/config"
)

// Store keeps secrets. NewStore makes one of a Keyring; those are in secrets/keychain,
// secrets/secretservice and secrets/agefile. Package secretstest tests this contract.
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

// Keyring keeps texts by service and account, as the system's stores do. op is the operation for errors.
type Keyring interface {
	// Read and Remove fail with Missing if there is no such secret.
	Read(ctx context.Context, op string, k Key) (string, error)
	Write(ctx context.Context, op string, k Key, text string) error
	Remove(ctx context.Context, op string, k Key) error
	// Accounts lists the accounts of a service.
	Accounts(ctx context.Context, op, service string) ([]string, error)
	// Check is Store.Check.
	Check(context.Context) (string, error)
}

// NewStore returns the store of a keyring.
func NewStore(k Keyring) Store { return store{k} }

type store struct{ Keyring }

func (s store) Get(ctx context.Context, k Key) (Value, error) {
	const op = "read secret"
	if err := k.Check(); err != nil {
		return Value{}, err
	}
	text, err := s.Read(ctx, op, k)
	if err != nil {
		return Value{}, missing(op, k, err)
	}
	return ParseValue(text)
}

func (s store) Set(ctx context.Context, k Key, v Value) error {
	if err := cmp.Or(k.Check(), v.Check()); err != nil {
		return err
	}
	return s.Write(ctx, "keep secret", k, v.Reveal())
}

func (s store) Delete(ctx context.Context, k Key) error {
	const op = "delete secret"
	if err := k.Check(); err != nil {
		return err
	}
	return missing(op, k, s.Remove(ctx, op, k))
}

// missing adds the key and advice to a Missing error.
func missing(op string, k Key, err error) error {
	if errors.Is(err, Missing) {
		return NoSuch(op, k)
	}
	return err
}

func (s store) List(ctx context.Context, agent config.AgentID) ([]Key, error) {
	if err := checkAgent(agent); err != nil {
		return nil, err
	}
	keys := []Key{}
	for _, service := range []string{AgentService, PluginService} {
		accounts, err := s.Accounts(ctx, "list secrets", service)
		if err != nil {
			return nil, err
		}
		for _, account := range accounts {
			if k, ok := KeyOf(service, account); ok && k.Agent == agent {
				keys = append(keys, k)
			}
		}
	}
	slices.SortFunc(keys, Key.Compare)
	return keys, nil
}

// Package agefile keeps secrets in a file encrypted with age, for hosts without a keyring.
package agefile

import (
	"context"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the secrets file of a home. Every call reads it again, so programs that
// share a home see each other's changes.
type Store struct {
	home config.Home
	key  *key
}

var _ secrets.Store = (*Store)(nil)

// Prompt asks a person for the key's passphrase.
type Prompt func(context.Context) (secrets.Value, error)

// New returns the store of a home. Without a prompt, a key with a passphrase stays
// locked unless PassphraseFileVariable names a file. The secrets file and its key
// are created with the first secret.
func New(home config.Home, prompt Prompt) *Store {
	return &Store{home, &key{home: home, prompt: prompt, turn: make(chan struct{}, 1), work: scryptWork}}
}

// Get implements secrets.Store.
func (s *Store) Get(ctx context.Context, k secrets.Key) (secrets.Value, error) {
	const op = "read secret"
	if err := k.Check(); err != nil {
		return secrets.Value{}, err
	}
	all, err := s.read(ctx, op, s.key.prompt)
	if err != nil {
		return secrets.Value{}, err
	}
	text, ok := all[k.Service()][k.Account()]
	if !ok {
		return secrets.Value{}, secrets.NoSuch(op, k)
	}
	return secrets.ParseValue(text)
}

// Set implements secrets.Store.
func (s *Store) Set(ctx context.Context, k secrets.Key, v secrets.Value) error {
	const op = "keep secret"
	if err := v.Check(); err != nil {
		return err
	}
	return s.change(ctx, op, k, func(all content) error {
		if all[k.Service()] == nil {
			all[k.Service()] = map[string]string{}
		}
		all[k.Service()][k.Account()] = v.Reveal()
		return nil
	})
}

// Delete implements secrets.Store.
func (s *Store) Delete(ctx context.Context, k secrets.Key) error {
	const op = "delete secret"
	return s.change(ctx, op, k, func(all content) error {
		if _, ok := all[k.Service()][k.Account()]; !ok {
			return secrets.NoSuch(op, k)
		}
		delete(all[k.Service()], k.Account())
		return nil
	})
}

// change changes the file under its lock.
func (s *Store) change(ctx context.Context, op string, k secrets.Key, change func(content) error) error {
	if err := k.Check(); err != nil {
		return err
	}
	// Open the key before taking the lock: a person may have to type a passphrase.
	if _, err := s.read(ctx, op, s.key.prompt); err != nil {
		return err
	}
	unlock, err := s.home.Lock("secrets")
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.read(ctx, op, s.key.prompt)
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	return s.write(ctx, op, all)
}

// List implements secrets.Store.
func (s *Store) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	if err := secrets.CheckAgent(agent); err != nil {
		return nil, err
	}
	all, err := s.read(ctx, "list secrets", s.key.prompt)
	if err != nil {
		return nil, err
	}
	var keys []secrets.Key
	for service, accounts := range all {
		for account := range accounts {
			if k, ok := secrets.KeyOf(service, account); ok {
				keys = append(keys, k)
			}
		}
	}
	return secrets.Of(agent, keys), nil
}

// Check implements secrets.Store. It says what protects the file.
func (s *Store) Check(ctx context.Context) (string, error) {
	if _, err := s.read(ctx, "check secrets", nil); err != nil {
		return "", err
	}
	sealed, err := s.key.sealed()
	switch {
	case err != nil:
		return "", err
	case sealed:
		return fmt.Sprintf("file %s; its key has a passphrase", s.home.Secrets()), nil
	}
	return fmt.Sprintf("file %s; weaker than a keyring, because its key is in the same folder", s.home.Secrets()), nil
}

// Protect sets or replaces the key's passphrase.
func (s *Store) Protect(ctx context.Context, passphrase secrets.Value) error {
	if err := passphrase.Check(); err != nil {
		return err
	}
	return s.rekey(ctx, "protect secrets", func(id identity) ([]byte, error) { return s.key.seal(id, passphrase) })
}

// Unprotect removes the key's passphrase.
func (s *Store) Unprotect(ctx context.Context) error {
	return s.rekey(ctx, "unprotect secrets", func(id identity) ([]byte, error) { return plain(id), nil })
}

// rekey writes the key file again. The secrets do not change.
func (s *Store) rekey(ctx context.Context, op string, encode func(identity) ([]byte, error)) error {
	unlock, err := s.home.Lock("secrets")
	if err != nil {
		return err
	}
	defer unlock()
	id, err := s.key.getOrMake(ctx, op)
	if err != nil {
		return err
	}
	text, err := encode(id)
	if err != nil {
		return fault.New(fault.Execution, op, s.home.SecretsKey(), err)
	}
	return config.WriteFile(s.home.SecretsKey(), text)
}

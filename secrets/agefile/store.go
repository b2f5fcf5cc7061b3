// Package agefile keeps secrets in a file encrypted with age, for hosts without a keyring.
package agefile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the secrets file of a home. Every call reads it again, so programs that
// share a home see each other's changes.
type Store struct {
	secrets.Store
	file *keyring
}

type keyring struct {
	home config.Home
	key  *key
}

// Prompt asks a person for the key's passphrase.
type Prompt func(context.Context) (secrets.Value, error)

// New returns the store of a home. Without a prompt, a key with a passphrase stays
// locked unless PassphraseFileVariable names a file. The secrets file and its key
// are created with the first secret.
func New(home config.Home, prompt Prompt) *Store {
	k := &keyring{home, &key{home: home, prompt: prompt, turn: make(chan struct{}, 1), work: scryptWork}}
	return &Store{secrets.NewStore(k), k}
}

func (s *keyring) Read(ctx context.Context, op string, k secrets.Key) (string, error) {
	all, err := s.read(ctx, op, s.key.prompt)
	text, ok := all[k.Service()][k.Account()]
	if err == nil && !ok {
		err = secrets.Missing
	}
	return text, err
}

func (s *keyring) Write(ctx context.Context, op string, k secrets.Key, text string) error {
	return s.change(ctx, op, func(all content) error {
		if all[k.Service()] == nil {
			all[k.Service()] = map[string]string{}
		}
		all[k.Service()][k.Account()] = text
		return nil
	})
}

func (s *keyring) Remove(ctx context.Context, op string, k secrets.Key) error {
	return s.change(ctx, op, func(all content) error {
		if _, ok := all[k.Service()][k.Account()]; !ok {
			return secrets.Missing
		}
		delete(all[k.Service()], k.Account())
		return nil
	})
}

// change changes the file under its lock.
func (s *keyring) change(ctx context.Context, op string, change func(content) error) error {
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

func (s *keyring) Accounts(ctx context.Context, op, service string) ([]string, error) {
	all, err := s.read(ctx, op, s.key.prompt)
	return slices.Collect(maps.Keys(all[service])), err
}

// Check implements secrets.Keyring. It says what protects the file.
func (s *keyring) Check(ctx context.Context) (string, error) {
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
	return s.file.rekey(ctx, "protect secrets", func(id identity) ([]byte, error) { return s.file.key.seal(id, passphrase) })
}

// Unprotect removes the key's passphrase.
func (s *Store) Unprotect(ctx context.Context) error {
	return s.file.rekey(ctx, "unprotect secrets", func(id identity) ([]byte, error) { return plain(id), nil })
}

// rekey writes the key file again. The secrets do not change.
func (s *keyring) rekey(ctx context.Context, op string, encode func(identity) ([]byte, error)) error {
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

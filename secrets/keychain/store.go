// Package keychain keeps secrets in the user's Keychain, under the names that the desktop app uses.
package keychain

import (
	"context"
	"errors"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the user's Keychain. On systems without one every call is
// secrets.Absent.
//
// macOS may ask its owner before it answers, and cannot be told to stop. So
// calls are made one at a time, and whose context ends leaves its call behind:
// the next waits until the dialog is answered, and there is never a second one.
type Store struct {
	items items
	turn  chan struct{}
}

var _ secrets.Store = (*Store)(nil)

// items are the Keychain's generic passwords. An error is a status, unless it
// has none. Empty names would mean any: the Store lets none through.
type items interface {
	read(service, account string) ([]byte, error)
	add(service, account, label string, data []byte) error
	update(service, account string, data []byte) error
	delete(service, account string) error
	// accounts lists those of a service; nobody is asked for that.
	accounts(service string) ([]string, error)
}

// New returns the store.
func New() *Store { return newStore(system()) }

func newStore(i items) *Store { return &Store{i, make(chan struct{}, 1)} }

// do calls the Keychain, when it is free, and waits no longer than the context.
func do[T any](ctx context.Context, s *Store, op, subject string, call func(items) (T, error)) (nothing T, err error) {
	if s.items == nil {
		return nothing, secrets.Absent.Fault(op, subject, errors.New("this system has no Keychain")).Advise(absentAdvice)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nothing, givenUp(ctx, op, subject)
	}
	type answer struct {
		it  T
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-s.turn }()
		if ctx.Err() != nil {
			return // both were possible, the turn and the end
		}
		it, err := call(s.items)
		answered <- answer{it, err}
	}()
	select {
	case a := <-answered:
		return a.it, explain(op, subject, a.err)
	case <-ctx.Done():
		return nothing, givenUp(ctx, op, subject)
	}
}

func givenUp(ctx context.Context, op, subject string) error {
	return fault.Wrap(op, subject, ctx.Err()).Advise("See whether macOS shows a dialog that wants an answer.")
}

// Get returns a secret.
func (s *Store) Get(ctx context.Context, k secrets.Key) (secrets.Value, error) {
	const op = "read secret"
	if err := k.Check(); err != nil {
		return secrets.Value{}, err
	}
	data, err := do(ctx, s, op, k.String(), func(i items) ([]byte, error) { return i.read(k.Service(), k.Account()) })
	if err != nil {
		return secrets.Value{}, missing(op, k, err)
	}
	return secrets.ParseValue(string(data))
}

// Set keeps a secret.
func (s *Store) Set(ctx context.Context, k secrets.Key, v secrets.Value) error {
	const op = "keep secret"
	if err := errors.Join(k.Check(), v.Check()); err != nil {
		return err
	}
	_, err := do(ctx, s, op, k.String(), func(i items) (struct{}, error) {
		data := []byte(v.Reveal())
		err := i.update(k.Service(), k.Account(), data)
		if errors.Is(err, itemNotFound) {
			err = i.add(k.Service(), k.Account(), "Osaurus Sandbox: "+k.String(), data)
		}
		if errors.Is(err, duplicateItem) { // another program was quicker
			err = i.update(k.Service(), k.Account(), data)
		}
		return struct{}{}, err
	})
	return err
}

// Delete forgets a secret.
func (s *Store) Delete(ctx context.Context, k secrets.Key) error {
	const op = "delete secret"
	if err := k.Check(); err != nil {
		return err
	}
	_, err := do(ctx, s, op, k.String(), func(i items) (struct{}, error) { return struct{}{}, i.delete(k.Service(), k.Account()) })
	return missing(op, k, err)
}

// missing says of which secret, and what to do.
func missing(op string, k secrets.Key, err error) error {
	if errors.Is(err, secrets.Missing) {
		return secrets.NoSuch(op, k)
	}
	return err
}

// List names an agent's secrets.
func (s *Store) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	if err := secrets.CheckAgent(agent); err != nil {
		return nil, err
	}
	keys, err := do(ctx, s, "list secrets", theKeychain, all)
	return secrets.Of(agent, keys), err
}

const theKeychain = "the Keychain"

// all are all secrets of all agents.
func all(i items) ([]secrets.Key, error) {
	var keys []secrets.Key
	for _, service := range secrets.Services() {
		accounts, err := i.accounts(service)
		if err != nil && !errors.Is(err, itemNotFound) {
			return nil, err
		}
		for _, account := range accounts {
			if k, ok := secrets.KeyOf(service, account); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys, nil
}

// Check says that there is a Keychain. Whether it is locked, macOS does not tell
// without asking for its password.
func (s *Store) Check(ctx context.Context) (string, error) {
	keys, err := do(ctx, s, "check secrets", theKeychain, all)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the Keychain, with %d secrets of agents", len(keys)), nil
}

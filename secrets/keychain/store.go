// Package keychain keeps secrets in the macOS Keychain, under the names that the desktop app uses.
package keychain

import (
	"context"
	"errors"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the user's Keychain. On other systems every call fails with
// secrets.Absent.
//
// macOS may show a dialog before it answers, and a call cannot be cancelled. So
// only one call runs at a time; after its context ends it keeps running, and the
// next call waits until the dialog is answered.
type Store struct {
	items items
	turn  chan struct{}
}

var _ secrets.Store = (*Store)(nil)

// items accesses the Keychain's generic passwords. Errors are statuses where possible. Empty names
// would act as wildcards; the Store passes none.
type items interface {
	read(service, account string) ([]byte, error)
	add(service, account, label string, data []byte) error
	update(service, account string, data []byte) error
	delete(service, account string) error
	// accounts lists the accounts of a service. It shows no dialog.
	accounts(service string) ([]string, error)
}

// New returns the store.
func New() *Store { return newStore(system()) }

func newStore(i items) *Store { return &Store{i, make(chan struct{}, 1)} }

// do calls the Keychain when no other call runs. It returns early if ctx ends.
func do[T any](ctx context.Context, s *Store, op, subject string, call func(items) (T, error)) (nothing T, err error) {
	if s.items == nil {
		return nothing, secrets.Absent.Fault(op, subject, errors.New("there is no Keychain on this system")).Advise(absentAdvice)
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
			return // select may have chosen the turn although ctx had ended
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
	return fault.Wrap(op, subject, ctx.Err()).Advise("Check whether macOS shows a dialog.")
}

// Get implements secrets.Store.
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

// Set implements secrets.Store.
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
		if errors.Is(err, duplicateItem) { // another program added it meanwhile
			err = i.update(k.Service(), k.Account(), data)
		}
		return struct{}{}, err
	})
	return err
}

// Delete implements secrets.Store.
func (s *Store) Delete(ctx context.Context, k secrets.Key) error {
	const op = "delete secret"
	if err := k.Check(); err != nil {
		return err
	}
	_, err := do(ctx, s, op, k.String(), func(i items) (struct{}, error) { return struct{}{}, i.delete(k.Service(), k.Account()) })
	return missing(op, k, err)
}

// missing adds the key and advice to a Missing error.
func missing(op string, k secrets.Key, err error) error {
	if errors.Is(err, secrets.Missing) {
		return secrets.NoSuch(op, k)
	}
	return err
}

// List implements secrets.Store.
func (s *Store) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	if err := secrets.CheckAgent(agent); err != nil {
		return nil, err
	}
	keys, err := do(ctx, s, "list secrets", theKeychain, all)
	return secrets.Of(agent, keys), err
}

const theKeychain = "the Keychain"

// all returns the keys of all agents.
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

// Check implements secrets.Store. macOS does not say whether the Keychain is locked
// without asking for its password.
func (s *Store) Check(ctx context.Context) (string, error) {
	keys, err := do(ctx, s, "check secrets", theKeychain, all)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the Keychain, with %d agent secrets", len(keys)), nil
}

// Package keychain keeps secrets in the macOS Keychain, under the names that the desktop app uses.
package keychain

import (
	"context"
	"errors"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the user's Keychain. On other systems every call fails with
// secrets.Absent.
type Store struct{ secrets.Store }

// keyring calls the Keychain. macOS may show a dialog before it answers, and a call cannot be
// cancelled. So only one call runs at a time; after its context ends it keeps running, and the
// next call waits until the dialog is answered.
type keyring struct {
	items items
	turn  chan struct{}
}

// items accesses the Keychain's generic passwords. Errors are statuses where possible. Empty names
// would act as wildcards; the store passes none.
type items interface {
	read(service, account string) ([]byte, error)
	add(service, account, label string, data []byte) error
	update(service, account string, data []byte) error
	delete(service, account string) error
	// accounts lists the accounts of a service. It shows no dialog.
	accounts(service string) ([]string, error)
}

// New returns the store.
func New() Store { return newStore(system()) }

func newStore(i items) Store { return Store{secrets.NewStore(keyring{i, make(chan struct{}, 1)})} }

// do calls the Keychain when no other call runs. It returns early if ctx ends.
func do[T any](ctx context.Context, s keyring, op, subject string, call func(items) (T, error)) (nothing T, err error) {
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

func (s keyring) Read(ctx context.Context, op string, k secrets.Key) (string, error) {
	data, err := do(ctx, s, op, k.String(), func(i items) ([]byte, error) { return i.read(k.Service(), k.Account()) })
	return string(data), err
}

func (s keyring) Write(ctx context.Context, op string, k secrets.Key, text string) error {
	_, err := do(ctx, s, op, k.String(), func(i items) (struct{}, error) {
		err := i.update(k.Service(), k.Account(), []byte(text))
		if errors.Is(err, itemNotFound) {
			err = i.add(k.Service(), k.Account(), "Osaurus Sandbox: "+k.String(), []byte(text))
		}
		if errors.Is(err, duplicateItem) { // another program added it meanwhile
			err = i.update(k.Service(), k.Account(), []byte(text))
		}
		return struct{}{}, err
	})
	return err
}

func (s keyring) Remove(ctx context.Context, op string, k secrets.Key) error {
	_, err := do(ctx, s, op, k.String(), func(i items) (struct{}, error) { return struct{}{}, i.delete(k.Service(), k.Account()) })
	return err
}

func (s keyring) Accounts(ctx context.Context, op, service string) ([]string, error) {
	return do(ctx, s, op, "the Keychain", func(i items) ([]string, error) {
		accounts, err := i.accounts(service)
		if errors.Is(err, itemNotFound) {
			err = nil
		}
		return accounts, err
	})
}

// Check implements secrets.Keyring. macOS does not say whether the Keychain is locked
// without asking for its password.
func (s keyring) Check(ctx context.Context) (string, error) {
	_, err := s.Accounts(ctx, "check secrets", secrets.AgentService)
	return "the Keychain", err
}

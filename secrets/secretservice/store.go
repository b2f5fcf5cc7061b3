// Package secretservice keeps secrets in the user's keyring over D-Bus: GNOME Keyring, KWallet or KeePassXC.
//
// Items have the attributes "service" and "account" of secrets.Key, so
// `secret-tool lookup service ai.osaurus.agent-secrets account UUID.NAME` finds them.
package secretservice

import (
	"context"
	"errors"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the keyring of the user's session. Each call opens its own connection,
// so a restarted keyring needs no special care.
//
// If the keyring is locked, its dialog is shown. Without a display, calls fail with
// secrets.Locked.
type Store struct{ secrets.Store }

// New returns the store.
func New() Store { return Store{secrets.NewStore(keyring{})} }

type keyring struct{}

// attributes identify items.
type attributes map[string]string

func attributesOf(k secrets.Key) attributes {
	return attributes{"service": k.Service(), "account": k.Account()}
}

// schema tells keyring managers the kind of an item. Searches leave it out, since other programs'
// items may have another schema.
const schemaKey, schema = "xdg:schema", "org.freedesktop.Secret.Generic"

func (keyring) Read(ctx context.Context, op string, k secrets.Key) (string, error) {
	s, items, err := search(ctx, op, attributesOf(k))
	if err != nil {
		return "", err
	}
	defer s.close()
	if len(items) == 0 {
		return "", secrets.Missing
	}
	var sealed sealedSecret
	if err := s.call(ctx, items[0], itemInterface+"GetSecret", s.path)(&sealed); err != nil {
		return "", err
	}
	text, err := s.unseal(sealed)
	if err != nil {
		return "", fault.New(fault.Execution, op, k.String(), err).Advise("Restart the keyring, or log in again.")
	}
	return string(text), nil
}

// Write updates the item in its keyring, or adds one to the default keyring.
func (keyring) Write(ctx context.Context, op string, k secrets.Key, text string) error {
	s, items, err := search(ctx, op, attributesOf(k))
	if err != nil {
		return err
	}
	defer s.close()
	sealed, err := s.seal([]byte(text))
	if err != nil {
		return fault.New(fault.Execution, op, k.String(), err)
	}
	if len(items) > 0 {
		return s.call(ctx, items[0], itemInterface+"SetSecret", sealed)()
	}
	keyring, err := s.defaultKeyring(ctx)
	if err != nil {
		return err
	}
	named := attributesOf(k)
	named[schemaKey] = schema
	properties := map[string]dbus.Variant{
		itemInterface + "Label":      dbus.MakeVariant("Osaurus Sandbox: " + k.String()),
		itemInterface + "Attributes": dbus.MakeVariant(map[string]string(named)),
	}
	const replace = true
	var item, prompt dbus.ObjectPath
	if err := s.call(ctx, keyring, collectionInterface+"CreateItem", properties, sealed, replace)(&item, &prompt); err != nil {
		return err
	}
	_, err = s.ask(ctx, prompt)
	return err
}

// Remove deletes the secret from every keyring.
func (keyring) Remove(ctx context.Context, op string, k secrets.Key) error {
	s, items, err := search(ctx, op, attributesOf(k))
	if err != nil {
		return err
	}
	defer s.close()
	if len(items) == 0 {
		return secrets.Missing
	}
	for _, item := range items {
		var prompt dbus.ObjectPath
		if err := s.call(ctx, item, itemInterface+"Delete")(&prompt); err != nil {
			return err
		}
		if _, err := s.ask(ctx, prompt); err != nil {
			return err
		}
	}
	return nil
}

func (keyring) Accounts(ctx context.Context, op, service string) ([]string, error) {
	s, items, err := search(ctx, op, attributes{"service": service})
	if err != nil {
		return nil, err
	}
	defer s.close()
	var accounts []string
	for _, item := range items {
		found := attributes{}
		if err := s.property(ctx, item, itemInterface, "Attributes", &found); errors.Is(err, secrets.Missing) {
			continue // deleted meanwhile
		} else if err != nil {
			return nil, err
		}
		accounts = append(accounts, found["account"])
	}
	return accounts, nil
}

// Check implements secrets.Keyring. It names the default keyring.
func (keyring) Check(ctx context.Context) (string, error) {
	s, err := open(ctx, "check secrets")
	if err != nil {
		return "", err
	}
	defer s.close()
	keyring, err := s.alias(ctx)
	if err != nil {
		return "", err
	}
	if keyring == none {
		return "", secrets.Absent.Fault(s.op, theService, errors.New("there is no default keyring yet")).Advise(unlockAdvice)
	}
	var label string
	var locked bool
	if err := errors.Join(s.property(ctx, keyring, collectionInterface, "Label", &label), s.property(ctx, keyring, collectionInterface, "Locked", &locked)); err != nil {
		return "", err
	}
	if locked {
		return "", s.locked(nil)
	}
	return "the keyring " + label + " (Secret Service), unlocked", nil
}

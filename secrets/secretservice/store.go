// Package secretservice keeps secrets in the user's keyring over D-Bus: GNOME Keyring, KWallet or KeePassXC.
//
// Items have the attributes "service" and "account" of secrets.Key, so
// `secret-tool lookup service ai.osaurus.agent-secrets account UUID.NAME` finds them.
package secretservice

import (
	"context"
	"errors"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Store is the keyring of the user's session. Each call opens its own connection,
// so a restarted keyring needs no special care.
//
// If the keyring is locked, its dialog is shown. Without a display, calls fail with
// secrets.Locked.
type Store struct{}

var _ secrets.Store = Store{}

// attributes identify items.
type attributes map[string]string

func attributesOf(k secrets.Key) attributes {
	return attributes{"service": k.Service(), "account": k.Account()}
}

// schema tells keyring managers the kind of an item. Searches leave it out, since other programs'
// items may have another schema.
const schemaKey, schema = "xdg:schema", "org.freedesktop.Secret.Generic"

// Get implements secrets.Store.
func (Store) Get(ctx context.Context, k secrets.Key) (secrets.Value, error) {
	const op = "read secret"
	if err := k.Check(); err != nil {
		return secrets.Value{}, err
	}
	s, err := open(ctx, op)
	if err != nil {
		return secrets.Value{}, err
	}
	defer s.close()
	items, err := s.find(ctx, attributesOf(k))
	switch {
	case err != nil:
		return secrets.Value{}, err
	case len(items) == 0:
		return secrets.Value{}, secrets.NoSuch(op, k)
	}
	var sealed sealedSecret
	if err := s.call(ctx, items[0], itemInterface+"GetSecret", s.path)(&sealed); err != nil {
		return secrets.Value{}, err
	}
	text, err := s.unseal(sealed)
	if err != nil {
		return secrets.Value{}, fault.New(fault.Execution, op, k.String(), err).Advise("Restart the keyring, or log in again.")
	}
	return secrets.ParseValue(string(text))
}

// Set implements secrets.Store. It updates the item in its keyring, or adds one to
// the default keyring.
func (Store) Set(ctx context.Context, k secrets.Key, v secrets.Value) error {
	const op = "keep secret"
	if err := errors.Join(k.Check(), v.Check()); err != nil {
		return err
	}
	s, err := open(ctx, op)
	if err != nil {
		return err
	}
	defer s.close()
	sealed, err := s.seal([]byte(v.Reveal()))
	if err != nil {
		return fault.New(fault.Execution, op, k.String(), err)
	}
	items, err := s.find(ctx, attributesOf(k))
	if err != nil {
		return err
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

// Delete implements secrets.Store. It deletes the secret from every keyring.
func (Store) Delete(ctx context.Context, k secrets.Key) error {
	const op = "delete secret"
	if err := k.Check(); err != nil {
		return err
	}
	s, err := open(ctx, op)
	if err != nil {
		return err
	}
	defer s.close()
	items, err := s.find(ctx, attributesOf(k))
	switch {
	case err != nil:
		return err
	case len(items) == 0:
		return secrets.NoSuch(op, k)
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

// List implements secrets.Store.
func (Store) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	if err := secrets.CheckAgent(agent); err != nil {
		return nil, err
	}
	s, err := open(ctx, "list secrets")
	if err != nil {
		return nil, err
	}
	defer s.close()
	var keys []secrets.Key
	for _, service := range secrets.Services() {
		items, err := s.find(ctx, attributes{"service": service})
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			found := attributes{}
			if err := s.property(ctx, item, itemInterface, "Attributes", &found); errors.Is(err, secrets.Missing) {
				continue // deleted meanwhile
			} else if err != nil {
				return nil, err
			}
			if k, ok := secrets.KeyOf(service, found["account"]); ok {
				keys = append(keys, k)
			}
		}
	}
	return secrets.Of(agent, keys), nil
}

// Check implements secrets.Store. It names the default keyring.
func (Store) Check(ctx context.Context) (string, error) {
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

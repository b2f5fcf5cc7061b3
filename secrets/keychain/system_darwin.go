package keychain

import (
	"errors"

	apple "github.com/keybase/go-keychain"
)

// system returns the Keychain.
func system() items { return genericPasswords{} }

// genericPasswords are the items of the user's default keychain.
type genericPasswords struct{}

// query finds one item.
func query(service, account string) apple.Item {
	q := apple.NewItem()
	q.SetSecClass(apple.SecClassGenericPassword)
	q.SetService(service)
	q.SetAccount(account)
	return q
}

func (genericPasswords) read(service, account string) ([]byte, error) {
	q := query(service, account)
	q.SetMatchLimit(apple.MatchLimitOne)
	q.SetReturnData(true)
	found, err := apple.QueryItem(q)
	switch {
	case err != nil:
		return nil, statusOf(err)
	case len(found) == 0: // go-keychain returns no error for this
		return nil, itemNotFound
	}
	return found[0].Data, nil
}

func (genericPasswords) add(service, account, label string, data []byte) error {
	const noGroup = "" // groups are for programs with a provisioning profile
	item := apple.NewGenericPassword(service, account, label, data, noGroup)
	item.SetSynchronizable(apple.SynchronizableNo) // never to iCloud
	return statusOf(apple.AddItem(item))
}

func (genericPasswords) update(service, account string, data []byte) error {
	change := apple.NewItem()
	change.SetData(data)
	return statusOf(apple.UpdateItem(query(service, account), change))
}

func (genericPasswords) delete(service, account string) error {
	return statusOf(apple.DeleteGenericPasswordItem(service, account))
}

func (genericPasswords) accounts(service string) ([]string, error) {
	found, err := apple.GetGenericPasswordAccounts(service)
	return found, statusOf(err)
}

// statusOf extracts the status from an error of go-keychain.
func statusOf(err error) error {
	if e, ok := errors.AsType[apple.Error](err); ok {
		return status(e)
	}
	return err
}

// Package stores opens the store of secrets that the settings name.
package stores

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/secrets/keychain"
	"osaurus-sandbox/secrets/secretservice"
)

// Open opens a store, and no other: one that this system does not have, or that
// is locked, says so when a secret is asked for. Prompt is for the passphrase of
// the file's key, if it has one; nil where there is nobody to ask.
func Open(which config.SecretStore, home config.Home, prompt agefile.Prompt) secrets.Store {
	switch which {
	case config.SecretsInKeychain:
		return keychain.New()
	case config.SecretsInFile:
		return agefile.New(home, prompt)
	}
	return secretservice.Store{}
}

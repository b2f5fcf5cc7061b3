// Package stores opens the secret store that the settings choose.
package stores

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/secrets/keychain"
	"osaurus-sandbox/secrets/secretservice"
)

// Open opens a store and never falls back to another. A missing or locked store fails when it is
// used. prompt asks for the passphrase of the encrypted file's key; nil means that no person can
// be asked.
func Open(which config.SecretStore, home config.Home, prompt agefile.Prompt) secrets.Store {
	switch which {
	case config.SecretsInKeychain:
		return keychain.New()
	case config.SecretsInFile:
		return agefile.New(home, prompt)
	}
	return secretservice.New()
}

package config

import "runtime"

// SecretStore names a store of agents' secrets.
type SecretStore string

const (
	SecretsInKeychain      SecretStore = "keychain"       // the user's Keychain, on macOS
	SecretsInSecretService SecretStore = "secret-service" // the user's keyring over D-Bus, on Linux
	SecretsInFile          SecretStore = "file"           // an encrypted file in the home; weaker, so never the default
)

const secretStoreAllowed = `"keychain", "secret-service" or "file"`

// parseSecretStore parses the name of a store. It accepts stores that this system lacks:
// using them fails later.
func parseSecretStore(text string) (SecretStore, error) {
	switch s := SecretStore(text); s {
	case SecretsInKeychain, SecretsInSecretService, SecretsInFile:
		return s, nil
	}
	return "", notAllowed("read secret store", text, secretStoreAllowed)
}

// systemSecretStore returns the operating system's store.
func systemSecretStore() SecretStore {
	if runtime.GOOS == "darwin" {
		return SecretsInKeychain
	}
	return SecretsInSecretService
}

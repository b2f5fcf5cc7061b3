package config

import "runtime"

// SecretStore is where agents' secrets are kept.
type SecretStore string

const (
	SecretsInKeychain      SecretStore = "keychain"       // the user's Keychain, on macOS
	SecretsInSecretService SecretStore = "secret-service" // the user's keyring over D-Bus, on Linux
	SecretsInFile          SecretStore = "file"           // an encrypted file in the home; weaker, so never chosen but by hand
)

const secretStoreAllowed = `"keychain", "secret-service" or "file"`

// parseSecretStore reads where secrets are kept. One that this system does not
// have is no mistake of the settings: it is told where a secret is asked for.
func parseSecretStore(text string) (SecretStore, error) {
	switch s := SecretStore(text); s {
	case SecretsInKeychain, SecretsInSecretService, SecretsInFile:
		return s, nil
	}
	return "", notAllowed("read secret store", text, secretStoreAllowed)
}

// systemSecretStore is the system's own.
func systemSecretStore() SecretStore {
	if runtime.GOOS == "darwin" {
		return SecretsInKeychain
	}
	return SecretsInSecretService
}

package keychain

import (
	"os"
	"testing"

	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretstest"
)

// realVariable makes the suite use the user's Keychain. It removes what it creates. make
// first-mac sets it.
const realVariable = "OSAURUS_TEST_KEYCHAIN"

func TestKeychain(t *testing.T) {
	if os.Getenv(realVariable) == "" {
		t.Skip("not on a person's own Keychain, unless " + realVariable + "=1")
	}
	secretstest.Run(t, func(*testing.T) secrets.Store { return New() })
}

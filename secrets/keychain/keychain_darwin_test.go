package keychain

import (
	"os"
	"testing"

	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretstest"
)

// realVariable has the suite run on the Keychain of whoever runs it: make
// verify-macos sets it. The suite removes all that it made.
const realVariable = "OSAURUS_TEST_KEYCHAIN"

func TestKeychain(t *testing.T) {
	if os.Getenv(realVariable) == "" {
		t.Skip("not on a person's own Keychain, unless " + realVariable + "=1")
	}
	secretstest.Run(t, func(*testing.T) secrets.Store { return New() })
}

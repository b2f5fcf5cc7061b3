package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretstest"
)

// TestS08NeverAnother checks that an absent store is never replaced by another, such as the file.
func TestS08NeverAnother(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	home := config.Home(t.TempDir())
	k := secrets.Key{Agent: secretstest.Alice, Name: "TOKEN"}
	for which, want := range map[config.SecretStore]string{
		config.SecretsInKeychain: "keychain.Store", config.SecretsInSecretService: "secretservice.Store", config.SecretsInFile: "*agefile.Store",
	} {
		s := Open(which, home, nil)
		if got := fmt.Sprintf("%T", s); got != want {
			t.Errorf("%s opens %s", which, got)
		}
		if which == elsewhere || which == config.SecretsInSecretService {
			secretstest.Refuses(t, s, k, secrets.Absent)
		}
	}
	if left, err := os.ReadDir(string(home)); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

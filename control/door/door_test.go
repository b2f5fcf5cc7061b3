package door

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
)

func TestToken(t *testing.T) {
	home := config.Home(t.TempDir() + "/home")
	path := filepath.Join(string(home), "config", "a-token")
	first, err := Token(home, path)
	if err != nil || len(first) < minToken {
		t.Fatalf("%q %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if again, err := Token(home, path); err != nil || again != first {
		t.Errorf("%q %v", again, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(home, path); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("a token that others can read: %v", err)
	}
}

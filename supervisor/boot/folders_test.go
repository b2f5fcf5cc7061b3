package boot

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// TestNoLinkIsShared: nothing that a guest's root put in place of a shared folder is
// shared with the next guest.
func TestNoLinkIsShared(t *testing.T) {
	for _, name := range []string{"shared", "agents"} {
		home := config.Home(filepath.Join(t.TempDir(), "home"))
		if err := makeFolders(home); err != nil {
			t.Fatal(err)
		}
		if err := makeFolders(home); err != nil {
			t.Fatalf("a second time: %v", err)
		}
		path := filepath.Join(home.Workspace(), name)
		for what, put := range map[string]func() error{
			"a link to a folder of the host":            func() error { return os.Symlink(t.TempDir(), path) },
			"a link to the home's own":                  func() error { return os.Symlink("..", path) },
			"a link to nothing":                         func() error { return os.Symlink("nowhere", path) },
			"a file":                                    func() error { return os.WriteFile(path, nil, 0o600) },
			"a link to another folder of the workspace": func() error { return os.Symlink(".", path) },
		} {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			if err := makeFolders(home); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
				t.Errorf("%s in place of %s: %v", what, name, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := makeFolders(home); err != nil {
			t.Errorf("after it was removed: %v", err)
		}
	}
}

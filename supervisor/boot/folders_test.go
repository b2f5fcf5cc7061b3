package boot

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// TestNoLinkIsShared: nothing that a guest's root put in place of a shared folder is
// shared with the next guest.
func TestNoLinkIsShared(t *testing.T) {
	for _, name := range []string{"shared", "agents"} {
		home := config.Home(filepath.Join(t.TempDir(), "home"))
		if err := makeFolders(home, vm.Capabilities{}); err != nil {
			t.Fatal(err)
		}
		if err := makeFolders(home, vm.Capabilities{}); err != nil {
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
			if err := makeFolders(home, vm.Capabilities{}); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
				t.Errorf("%s in place of %s: %v", what, name, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := makeFolders(home, vm.Capabilities{}); err != nil {
			t.Errorf("after it was removed: %v", err)
		}
	}
}

// TestModes: where the guest takes whoever asked first for the owner of a shared folder, all
// agents may write to it, and other users of this computer still cannot reach it. A folder that
// exists gets the mode too.
func TestModes(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	everybody := vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipSubtree, vm.OwnershipAsker, vm.OwnershipEverybody}}
	asker := vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipAsker}}
	for _, c := range []struct {
		can  vm.Capabilities
		want fs.FileMode
	}{{everybody, 0o700}, {asker, 0o777}, {everybody, 0o700}} {
		if err := makeFolders(home, c.can); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{
			home.SharedFolder(): c.want, home.Output(): c.want,
			filepath.Join(home.Workspace(), "agents"): 0o700, home.Workspace(): 0o700, filepath.Dir(home.Output()): 0o700,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%v: %s has mode %v, want %v (%v)", c.can.Ownership, path, info.Mode(), want, err)
			}
		}
	}
}

package toolstest_test

import (
	"path/filepath"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/toolstest"
	"osaurus-sandbox/vm"
)

// TestWithoutARoom makes the calls that need no more than files: on this host. All are
// made in real guests, by TestRooms of package launch.
func TestWithoutARoom(t *testing.T) {
	toolstest.Run(t, world(t, new(hosttest.Backend)), false)
}

// world is one over a guest that is this host.
func world(t *testing.T, b *hosttest.Backend) *toolstest.World {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	b.Workspace = home.Workspace()
	return toolstest.New(t, toolstest.Options{Home: home, Backend: b, Folders: new(vm.Subtrees), Tokens: bridge.NewTokens()})
}

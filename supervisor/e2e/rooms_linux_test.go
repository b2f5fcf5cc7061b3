//go:build linux && !vzstandin

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
	spi "osaurus-sandbox/sandbox"
	"osaurus-sandbox/sandbox/sandboxtest"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

// forgetful keeps no events.
type forgetful struct{}

func (forgetful) Note(events.Event) {}

// TestRoomKeepsTheContract runs the conformance kit in an agent's room.
func TestRoomKeepsTheContract(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	p := lab.DebianPack(t)
	lab.ShareImages(t, home, p)
	settings := fmt.Sprintf(`{"pack": %q, "toolbox": [], "network": "none", "memoryGB": 1, "diskGB": 1}`, p.Dir)
	if err := config.WriteFile(home.SettingsFile(), []byte(settings)); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), home.Database())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	folders := new(vm.Subtrees)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := options(home, nil)
	o.Arch, o.Folders = "", folders
	s, err := supervisor.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	all, err := agents.Open(t.Context(), agents.Options{Home: home, DB: db, Sandbox: s, Folders: folders, Tokens: bridge.NewTokens(), Record: forgetful{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	if _, err := all.Create(t.Context(), agents.New{Name: "kit"}, by); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	recorded := map[spi.Tenant]bool{}
	sandboxtest.Run(t, sandboxtest.Suite{
		Name: "room", Root: "/workspace/agents/kit",
		Sandbox: spi.Recorded(all.Room("kit"), func(r spi.Request) error {
			mu.Lock()
			defer mu.Unlock()
			recorded[r.Tenant] = true
			return nil
		}),
		Audited: func(_ context.Context, tenant spi.Tenant) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return recorded[tenant], nil
		},
	})
}

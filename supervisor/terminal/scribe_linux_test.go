package terminal

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/soon"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

// nobody takes note of nothing.
type nobody struct{}

func (nobody) Note(events.Event) {}

// later counts how often a log says that transcripts are kept later.
type later struct {
	slog.Handler
	told *atomic.Int32
}

func (l later) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "kept later") {
		l.told.Add(1)
	}
	return l.Handler.Handle(ctx, r)
}

// A guest that has no time to hand out what a session has shown does so later, and it is kept.
// That is told once, however often it is asked meanwhile.
func TestTranscriptIsKeptLater(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var told atomic.Int32
	home, log := config.Home(filepath.Join(t.TempDir(), "home")), slog.New(later{slog.NewTextHandler(t.Output(), nil), &told})
	must(config.WriteFile(home.SettingsFile(), []byte(`{"autoStart": false}`)))
	db, err := store.Open(t.Context(), home.Database())
	must(err)
	backend, folders := &hosttest.Backend{}, new(vm.Subtrees)
	sandbox, err := supervisor.New(t.Context(), supervisor.Options{Home: home, Backend: backend, Folders: folders})
	must(err)
	all, err := agents.Open(t.Context(), agents.Options{
		Home: home, DB: db, Sandbox: sandbox, Folders: folders, Tokens: bridge.NewTokens(), Record: nobody{}, Log: log,
	})
	must(err)
	terminals := New(Options{DB: db, Sandbox: sandbox, Agents: all, Record: nobody{}, Log: log})
	t.Cleanup(func() {
		terminals.Close()
		all.Close()
		if err := errors.Join(sandbox.Close(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	alice, err := all.Create(t.Context(), agents.New{Name: "alice"}, "test")
	must(err)
	run := func(command string) {
		t.Helper()
		_, err := terminals.Run(t.Context(), "alice", guest.ShellCommand{Shell: guest.Shell{Session: "s"}, Command: command}, "test")
		must(err)
	}
	kept := func(what string) bool {
		text, _, err := terminals.kept.read(t.Context(), alice.UID, "s")
		must(err)
		return strings.Contains(text, what)
	}
	run("echo first")
	soon.Until(t, "it is kept", func() bool { return kept("first") })
	g := backend.Guest()
	g.Refuse(fault.Newf(fault.Timeout, "list sessions", "", "it has no time"))
	for _, command := range []string{"echo second", "echo third"} {
		asked := len(g.Asked())
		run(command)
		soon.Until(t, "the guest was asked", func() bool { return slices.Contains(g.Asked()[asked:], "sessions agent-alice") })
	}
	g.Refuse(nil)
	soon.Until(t, "it is kept later", func() bool { return kept("third") })
	if n := told.Load(); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

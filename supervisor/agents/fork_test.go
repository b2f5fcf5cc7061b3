package agents_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
)

// forkWorld has alice with a room and a file.
func forkWorld(t *testing.T) (*world, agents.Agent) {
	t.Helper()
	w := newWorld(t)
	alice := w.create("alice")
	w.must(w.exec("alice"))
	w.must(os.WriteFile(filepath.Join(w.home.AgentHome(alice.Folder), "notes"), []byte("of alice"), 0o600))
	if _, err := w.Set(t.Context(), "alice", map[string]string{"limits.processes": "99"}, by); err != nil {
		t.Fatal(err)
	}
	return w, alice
}

// homesOf lists the folders of homes.
func (w *world) homesOf() (names []string) {
	w.t.Helper()
	list, err := os.ReadDir(filepath.Join(w.home.Workspace(), "agents"))
	w.must(err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestFork(t *testing.T) {
	w, alice := forkWorld(t)
	bob, err := w.Fork(t.Context(), "alice", agents.New{Name: "Bob", Settings: map[string]string{"network": "none"}}, false, nil, by)
	w.must(err)
	if bob.UID == alice.UID || bob.ID == alice.ID || bob.Settings.Limits.Processes != 99 || bob.Settings.Network != "none" {
		t.Errorf("%+v", bob)
	}
	if text, err := os.ReadFile(filepath.Join(w.home.AgentHome("bob"), "notes")); err != nil || string(text) != "of alice" {
		t.Errorf("%q %v", text, err)
	}
	if !slices.Contains(w.backend.Guest().Asked(), "fork agent-alice to agent-bob") || w.journal.count("agent.forked by test") != 1 {
		t.Error(w.backend.Guest().Asked())
	}
	w.must(w.exec("bob"))
	for _, name := range []string{"bob", "diag", "alice"} {
		_, err := w.Fork(t.Context(), "alice", agents.New{Name: name}, false, nil, by)
		w.want(err, fault.Rejected)
	}
	w.reopen()
	if _, err := w.Get("bob"); err != nil {
		t.Error(err)
	}
}

// A fork that fails, or whose caller leaves, leaves nothing.
func TestForkFails(t *testing.T) {
	w, _ := forkWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.Fork(ctx, "alice", agents.New{Name: "bob"}, false, func(progress.Event) {
		if _, err := w.Create(t.Context(), agents.New{Name: "bob"}, by); fault.KindOf(err) != fault.Rejected {
			t.Errorf("the name of an agent that is being made: %v", err)
		}
		cancel()
	}, by)
	if err == nil {
		t.Fatal("it was not cancelled")
	}
	w.backend.Guest().Refuse(fault.Newf(fault.Rejected, "fork room", "", "sh runs").Advise("End it."))
	_, err = w.Fork(t.Context(), "alice", agents.New{Name: "bob"}, false, nil, by)
	w.want(err, fault.Rejected)
	w.backend.Guest().Refuse(nil)
	if got := strings.Join(w.homesOf(), " "); got != "alice" {
		t.Errorf("left: %s", got)
	}
	if _, err := w.Get("bob"); err == nil {
		t.Error("there is an agent")
	}
	w.reopen()
	w.create("bob")
	w.must(w.exec("bob"))
}

// What a daemon that was killed has half copied is removed by the next one.
func TestKilledWhileItForks(t *testing.T) {
	w, _ := forkWorld(t)
	w.must(os.MkdirAll(filepath.Join(w.home.Workspace(), "agents", ".forking-X", "deep"), 0o700))
	w.reopen()
	if got := strings.Join(w.homesOf(), " "); got != "alice" {
		t.Errorf("left: %s", got)
	}
}

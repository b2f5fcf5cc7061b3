package agents_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
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

// fill copies a home.
func (w *world) fill(from, to agents.Agent) error {
	text, err := os.ReadFile(filepath.Join(w.home.AgentHome(from.Folder), "notes"))
	w.must(err)
	return os.WriteFile(filepath.Join(w.home.AgentHome(to.Folder), "notes"), text, 0o600)
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
	bob, err := w.Fork(t.Context(), "alice", agents.New{Name: "Bob", Settings: map[string]string{"network": "none"}}, false, w.fill, by)
	w.must(err)
	if bob.Folder != "bob" || bob.UID == alice.UID || bob.ID == alice.ID || bob.Settings.Limits.Processes != 99 || bob.Settings.Network != "none" {
		t.Errorf("%+v", bob)
	}
	if text, err := os.ReadFile(filepath.Join(w.home.AgentHome("bob"), "notes")); err != nil || string(text) != "of alice" || strings.Join(w.homesOf(), " ") != "alice bob" {
		t.Errorf("%q %v", text, err)
	}
	if !slices.Contains(w.backend.Guest().Asked(), "fork agent-alice to agent-bob") || w.journal.count("agent.forked by test") != 1 {
		t.Error(w.backend.Guest().Asked())
	}
	w.must(w.exec("bob"))
	for _, name := range []string{"bob", "diag", "alice"} {
		_, err := w.Fork(t.Context(), "alice", agents.New{Name: name}, false, w.fill, by)
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
	_, err := w.Fork(ctx, "alice", agents.New{Name: "bob"}, false, func(from, to agents.Agent) error {
		if _, err := w.Create(t.Context(), agents.New{Name: "bob"}, by); fault.KindOf(err) != fault.Rejected {
			t.Errorf("the name of an agent that is being made: %v", err)
		}
		cancel()
		w.must(w.fill(from, to))
		return ctx.Err()
	}, by)
	if err == nil {
		t.Fatal("it was not cancelled")
	}
	w.backend.Guest().Refuse(fault.Newf(fault.Rejected, "fork room", "", "sh runs").Advise("End it."))
	_, err = w.Fork(t.Context(), "alice", agents.New{Name: "bob"}, false, w.fill, by)
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

// An agent that is not whole and cannot be deleted is not used.
func TestForkIsLeft(t *testing.T) {
	w, _ := forkWorld(t)
	sql := func(text string) {
		_, err := w.opened.DB.Exec(t.Context(), "test", text)
		w.must(err)
	}
	sql("CREATE TRIGGER full BEFORE DELETE ON agents BEGIN SELECT RAISE(FAIL, 'the disk is full'); END")
	_, err := w.Fork(t.Context(), "alice", agents.New{Name: "bob"}, false, func(from, to agents.Agent) error { return os.ErrClosed }, by)
	if err == nil {
		t.Fatal("it did not fail")
	}
	w.want(w.exec("bob"), fault.Rejected)
	sql("DROP TRIGGER full")
	_, err = w.Delete(t.Context(), "bob", true, by)
	w.must(err)
	_, err = w.Fork(t.Context(), "alice", agents.New{Name: "bob"}, false, w.fill, by)
	w.must(err)
	w.must(w.exec("bob"))
}

// An agent that a daemon was killed while it forked is deleted by the next one, or is whole.
func TestKilledWhileItForks(t *testing.T) {
	w, _ := forkWorld(t)
	_, err := w.Fork(t.Context(), "alice", agents.New{Name: "bob"}, false, func(from, to agents.Agent) error {
		w.must(w.fill(from, to))
		w.reopen()
		if got := strings.Join(w.homesOf(), " "); got != "alice" {
			t.Errorf("left: %s", got)
		}
		if _, err := w.Get("bob"); err == nil {
			t.Error("there is half an agent")
		}
		w.create("bob")
		w.must(w.exec("bob")) // in a room of its own
		return os.ErrClosed
	}, by)
	w.want(err, fault.Execution)
}

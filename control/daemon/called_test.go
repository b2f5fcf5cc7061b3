package daemon_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

// What is on record of an agent befalls that one, and not another that is called so by the
// time that it is carried out.
func TestCalledSoMeanwhile(t *testing.T) {
	home := newHome(t, "home")
	db, err := store.Open(t.Context(), home.Database())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	folders := new(vm.Subtrees)
	sandbox, err := machine.New(t.Context(), machine.Options{Home: home, Backend: &hosttest.Backend{}, Folders: folders})
	if err != nil {
		t.Fatal(err)
	}
	between := new(meanwhile)
	all, err := agents.Open(t.Context(), agents.Options{
		Home: home, DB: db, Machines: machine.NewFleet(sandbox), Folders: folders, Tokens: bridge.NewTokens(), Secrets: between, Record: unheard{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	client := backedBy(t, home, control.Backing{Sandbox: sandbox, Agents: all, Audit: audit.New(db)})

	const by machine.Cause = "test"
	meant, err := all.Create(t.Context(), agents.New{Name: "alice"}, by)
	if err != nil {
		t.Fatal(err)
	}
	var other agents.Agent
	between.do = func() {
		_, err := all.Rename(t.Context(), "alice", "former", by)
		if err == nil {
			other, err = all.Create(t.Context(), agents.New{Name: "alice"}, by)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := client.Agents.Set(t.Context(), &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{"network": "none"}}); err != nil {
		t.Error(err)
	}
	for id, want := range map[config.AgentID]config.Network{meant.ID: config.NetworkNone, other.ID: config.NetworkOutbound} {
		if agent, err := all.Get(string(id)); err != nil || agent.Settings.Network != want {
			t.Errorf("%s has network %s, want %s, %v", agent.Name, agent.Settings.Network, want, err)
		}
	}
}

// meanwhile are secrets of nobody. Something is done when they are first asked for.
type meanwhile struct {
	once sync.Once
	do   func()
}

func (m *meanwhile) Redact(context.Context, config.AgentID) *redact.Live {
	m.once.Do(m.do)
	return nil
}

func (m *meanwhile) Redacted(config.AgentID) *redact.Scrubber { return nil }

// unheard is a journal that nobody keeps.
type unheard struct{}

func (unheard) Note(events.Event) {}

// backedBy is a client of a server over these alone, until the test ends.
func backedBy(t *testing.T, home config.Home, b control.Backing) *control.Client {
	t.Helper()
	b.Log, b.Close = slog.New(slog.DiscardHandler), b.Sandbox.Close
	server, err := control.NewServer(b)
	if err != nil {
		t.Fatal(err)
	}
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		for _, end := range []func() error{server.Unlink, func() error { return b.Sandbox.Close(context.Background()) }, server.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return client
}

package hosttest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

// Discard is an events.Recorder that drops all events.
type Discard struct{}

func (Discard) Note(events.Event) {}

// Home is a home with a machine and agents.
type Home struct {
	Dir     config.Home
	DB      *store.DB
	Machine *machine.Machine
	Agents  *agents.Agents
}

// OpenHome opens a home whose machine starts with the first command. Of o, only Record is required. The
// caller closes the home.
func OpenHome(t testing.TB, dir config.Home, backend machine.Backend, o agents.Options) *Home {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(config.WriteFile(dir.SettingsFile(), []byte(`{"autoStart": false, "secrets": "file"}`)))
	h := &Home{Dir: dir}
	var err error
	h.DB, err = store.Open(context.Background(), dir.Database())
	must(err)
	o.Home, o.DB = dir, h.DB
	o.Folders, o.Tokens = cmp.Or(o.Folders, new(vm.Subtrees)), cmp.Or(o.Tokens, bridge.NewTokens())
	if o.Secrets == nil {
		o.Secrets = noSecrets{}
	}
	if o.Trust == nil {
		o.Trust = func() *engine.Trust { return nil }
	}
	if o.PrepareTrust == nil {
		o.PrepareTrust = func(context.Context, agents.Agent) {}
	}
	if o.Made == nil {
		o.Made = func(context.Context, *machine.Lease, agents.Agent) {}
	}
	if o.Lost == nil {
		o.Lost = func(config.AgentID) bool { return false }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.NewTextHandler(t.Output(), nil)))
	h.Machine, err = machine.New(context.Background(), machine.Options{Home: dir, Backend: backend, Folders: o.Folders, Log: o.Log})
	must(err)
	o.Machines = machine.NewFleet(h.Machine)
	h.Agents, err = agents.Open(context.Background(), o)
	must(err)
	return h
}

// noSecrets redacts nothing.
type noSecrets struct{}

func (noSecrets) Redact(context.Context, config.AgentID) *redact.Live { return nil }
func (noSecrets) Redacted(config.AgentID) *redact.Scrubber            { return nil }

// Close closes the agents, the machine and the database.
func (h *Home) Close() error {
	h.Agents.Close()
	return errors.Join(h.Machine.Close(context.Background()), h.DB.Close())
}

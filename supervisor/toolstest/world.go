// Package toolstest calls each tool, right and wrong, and compares the answers with golden files.
package toolstest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/pluginhost"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/vm"
)

const by machine.Cause = "test"

// Options configure a World.
type Options struct {
	Home    config.Home
	Backend machine.Backend
	Folders *vm.Subtrees
	Tokens  *bridge.Tokens
}

// World is a home with agents and their tools, over any backend.
type World struct {
	Home    config.Home
	Sandbox *machine.Machine
	Agents  *agents.Agents
	Prompts *prompts.Broker
	Tools   *tools.Registry
	History *checkpoints.Checkpoints
}

// New returns a world that is closed at the end of the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.NewTextHandler(t.Output(), nil))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := vault.New(vault.Options{Home: o.Home, Bindings: new(vault.Bindings), Which: func() config.SecretStore { return config.SecretsInFile }, Log: log})
	home := hosttest.OpenHome(t, o.Home, o.Backend, agents.Options{Folders: o.Folders, Tokens: o.Tokens, Secrets: keys, Record: hosttest.Discard{}, Log: log})
	db := home.DB
	keys.Audit = audit.New(db)
	w := &World{Home: o.Home, Sandbox: home.Machine, Agents: home.Agents}
	w.Prompts = prompts.New(prompts.Options{Keep: keys.Set, Record: hosttest.Discard{}})
	shells := sessions.New(sessions.Options{DB: db, Agents: w.Agents, Record: hosttest.Discard{}, Log: log})
	shelf, err := artifacts.Open(ctx, artifacts.Options{Home: o.Home, DB: db, Record: hosttest.Discard{}})
	check(err)
	kept, err := checkpoints.OpenStore(o.Home, config.Defaults().History)
	check(err)
	past, err := checkpoints.Open(ctx, checkpoints.Options{DB: db, History: kept, Agents: w.Agents, Settings: func() config.History { return config.Defaults().History }, Log: log})
	check(err)
	host := toolhost.Options{
		Checkpoints: past, Agents: w.Agents, Sessions: shells, Vault: keys, Prompts: w.Prompts, Artifacts: shelf, Installer: toolhost.NewInstaller(w.Agents), Log: log,
	}
	w.Tools, w.History = toolhost.New(host), past
	recipes, err := library.Open(library.Options{Home: o.Home, Now: time.Now})
	check(err)
	plugins := pluginhost.Open(pluginhost.Options{
		Home: o.Home, Tools: host, Registry: w.Tools, Library: recipes, Topics: services.NewTopics(db, keys.Clean), Lines: services.NewLogs(w.Agents.Has, keys.Clean), Config: services.NewPluginConfig(db),
		Record: hosttest.Discard{}, Log: log,
	})
	t.Cleanup(func() {
		plugins.Close()
		w.Prompts.Close()
		shells.Close()
		past.Close()
		keys.Close()
		if err := errors.Join(home.Close(), shelf.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Agent creates an agent with settings.
func (w *World) Agent(t testing.TB, name string, settings map[string]string) tools.Agent {
	t.Helper()
	if _, err := w.Agents.Create(t.Context(), agents.New{Name: name}, by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Agents.Set(t.Context(), name, settings, by); err != nil {
		t.Fatal(err)
	}
	a, err := w.Agents.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return toolhost.AgentOf(a)
}

// Adopted is the backend of a guest that runs before and after its machine.
type Adopted struct{ Guest *boot.Guest }

func (Adopted) Check(context.Context) (string, error) { return "adopted", nil }
func (Adopted) Provisioned() bool                     { return true }
func (Adopted) Ready(config.Settings) bool            { return true }
func (Adopted) Reset(context.Context) error           { return nil }
func (Adopted) Remove(context.Context) error          { return nil }

func (Adopted) Prepare(context.Context, config.Settings, bool, *progress.Tracker) error { return nil }

func (a Adopted) Boot(context.Context, config.Settings, *progress.Tracker) (machine.Guest, boot.Machine, error) {
	g := &stays{Guest: a.Guest, done: make(chan struct{})}
	g.end = sync.OnceFunc(func() { close(g.done) })
	return g, boot.Machine{}, nil
}

// stays is a guest that ends for its supervisor alone.
type stays struct {
	machine.Guest
	done chan struct{}
	end  func()
}

func (s *stays) Shutdown(context.Context) error { return s.Close() }
func (s *stays) Done() <-chan struct{}          { return s.done }

func (s *stays) Close() error {
	s.end()
	return nil
}

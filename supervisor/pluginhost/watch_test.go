package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// patience bounds waits that take a moment on an idle host.
const patience = time.Minute

// world is a home whose guest is this host.
type world struct {
	t        *testing.T
	home     config.Home
	machine  *machine.Machine
	agents   *agents.Agents
	host     atomic.Pointer[Host]
	room     string // takes the place of the guest's root
	happened chan install.What
	silent   atomic.Bool // the guest runs no command
	refused  chan struct{}
	started  chan struct{} // receives when a plugin starts the guest
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, home: config.Home(filepath.Join(t.TempDir(), "home")), room: t.TempDir(), happened: make(chan install.What, 100), refused: make(chan struct{}, 1), started: make(chan struct{}, 1)}
	opened := hosttest.OpenHome(t, w.home, &hosttest.Backend{}, agents.Options{Record: w})
	w.machine, w.agents = opened.Machine, opened.Agents
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// look starts the host of plugins, with a pause between its attempts.
func (w *world) look(again time.Duration) {
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	b := &Host{Options: Options{Tools: toolhost.Options{Agents: w.agents}, Log: log}, life: life.New(life.Options{Log: log})}
	b.Installer = install.Open(install.Options{
		Home: w.home, Agent: w.Agent, Start: w.Start, Boot: w.Boot, Room: w.Room, Registry: tools.NewRegistry(log), Life: w, Log: log, Pause: again,
		Note: func(h install.Happening) { w.happened <- h.What },
	}, nil)
	b.watch = newWatch(b)
	w.t.Cleanup(b.Close)
	w.host.Store(b)
}

// setter creates an agent with a plugin.
func (w *world) setter(name string) agents.Agent {
	w.t.Helper()
	a, err := w.agents.Create(w.t.Context(), agents.New{Name: name}, by)
	w.must(err)
	record := fmt.Sprintf(`[{"plugin": {"name": "Setter", "description": "Sets up.", "setup": "echo set up >> made"}, "agentId": %q, "installedAt": "2026-01-02T03:04:05Z", "status": "ready", "sourceContentHash": "h", "layer": "%032x"}]`, a.ID, 1)
	w.must(config.WriteFile(w.home.InstalledPlugins(a.ID), []byte(record)))
	w.must(os.MkdirAll(filepath.Join(w.room, "home"), 0o755))
	return a
}

// looked waits for a failed attempt to repair the plugin.
func (w *world) looked() {
	w.t.Helper()
	select {
	case <-w.refused:
	case <-time.After(patience):
		w.t.Fatal("the plugin was not checked")
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// repaired waits until the plugin was repaired.
func (w *world) repaired(when string) {
	w.t.Helper()
	end := time.After(patience)
	for {
		select {
		case what := <-w.happened:
			if what == install.Repaired {
				return
			}
		case <-end:
			w.t.Fatalf("the plugin was not repaired after %s", when)
		}
	}
}

// layer takes the place of install.LayerFile.
func (w *world) layer() string { return filepath.Join(w.room, "layer") }

// Note implements agents.Recorder.
func (w *world) Note(e events.Event) {
	if b := w.host.Load(); b != nil {
		b.Note(e)
	}
}

func (w *world) Agent(id config.AgentID) (tools.Agent, error) {
	a, err := w.agents.Get(string(id))
	return toolhost.AgentOf(a), err
}

func (w *world) Start(ctx context.Context) error {
	notify.Signal(w.started)
	return w.machine.Start(ctx, by)
}

func (w *world) Boot() string { return bootOf(w.machine.Status()) }

// Room is install.Options.Room.
func (w *world) Room(a tools.Agent) engine.Room { return room{w: w, agent: a} }

type room struct {
	engine.Room
	w     *world
	agent tools.Agent
}

func (r room) Exec(ctx context.Context, c engine.Command) (engine.Process, error) {
	return r.w.exec(ctx, r.agent, c)
}

// exec runs a command on this host with the test's home and layer.
func (w *world) exec(ctx context.Context, a tools.Agent, c engine.Command) (engine.Process, error) {
	if w.silent.Load() {
		notify.Signal(w.refused)
		return nil, fault.Newf(fault.Timeout, "run command", "", "the guest does not answer")
	}
	here := func(text string) string {
		text = strings.ReplaceAll(text, install.LayerFile, w.layer())
		return strings.ReplaceAll(text, a.Home, filepath.Join(w.room, "home"))
	}
	for n, arg := range c.Args {
		c.Args[n] = here(arg)
	}
	c.Dir = here(c.Dir)
	return w.agents.RunningRoom(string(a.ID)).Exec(ctx, c)
}

func (w *world) Command(context.Context, tools.Agent, config.PluginID, plugins.Recipe, bool, *engine.Command) error {
	return nil
}
func (w *world) Begin(tools.Agent, config.PluginID, plugins.Recipe)         {}
func (w *world) End(context.Context, config.AgentID, config.PluginID) error { return nil }

// A plugin's files outside of the workspace are restored after each event that removes them.
// Plugins of a deleted agent are removed.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	alice := w.setter("alice")
	w.look(0)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"a start", func() error { return w.machine.Start(t.Context(), by) }},
		{"a restart", func() error { return w.machine.Restart(t.Context(), by) }},
		{"a silence right after a start", func() error {
			w.silent.Store(true)
			if err := w.machine.Restart(t.Context(), by); err != nil {
				return err
			}
			w.looked()
			w.silent.Store(false)
			return nil
		}},
		{"a reset of the agent", func() error { return w.agents.Reset(t.Context(), "alice", by) }},
		{"a reset of the sandbox", func() error { return w.machine.Reset(t.Context(), by) }},
	} {
		if err := os.Remove(w.layer()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		w.must(step.do())
		w.repaired(step.name)
	}
	made, err := os.ReadFile(filepath.Join(w.room, "home", "plugins", "setter", "made"))
	if n := strings.Count(string(made), "set up"); err != nil || n < 4 {
		t.Errorf("it was set up %d times: %v", n, err)
	}
	if _, err := w.agents.Delete(t.Context(), "alice", false, by); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.home.InstalledPlugins(alice.ID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the deleted agent's plugins: %v", err)
	}
}

// A guest that was stopped is not started to repair plugins.
func TestWatchStartsNothing(t *testing.T) {
	w := newWorld(t)
	w.setter("alice")
	w.setter("bob")
	w.look(10 * time.Millisecond)
	w.silent.Store(true)
	w.must(w.machine.Start(t.Context(), by))
	w.looked()
	w.must(w.machine.Stop(t.Context(), by))
	select {
	case <-w.started:
		t.Error("a guest that was stopped is started for its plugins")
	case <-time.After(time.Second): // many pauses
	}
}

// A restart or reset ends the pause between attempts.
func TestWatchWaitsForNoPause(t *testing.T) {
	for name, change := range map[string]func(w *world) error{
		"a restart": func(w *world) error { return w.machine.Restart(t.Context(), by) },
		"a reset":   func(w *world) error { return w.agents.Reset(t.Context(), "alice", by) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setter("alice")
			w.look(time.Hour)
			w.silent.Store(true)
			w.must(w.machine.Start(t.Context(), by))
			w.looked()
			w.silent.Store(false)
			w.must(change(w))
			w.repaired(name)
		})
	}
}

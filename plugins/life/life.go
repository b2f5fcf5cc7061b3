// Package life runs the daemons and event handlers of installed plugins, and checks what plugins may ask of the host.
package life

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/tools"
)

// Events reads the events of programs.
type Events interface {
	// Last returns the number of the newest event of any agent.
	Last(ctx context.Context) (bridge.EventSeq, error)
	// Read yields the events of a filter, and with follow new ones until the context ends.
	Read(ctx context.Context, f bridge.EventFilter, follow bool) iter.Seq2[bridge.Event, error]
}

// Options configures a Life.
type Options struct {
	// Room returns an agent's room in the running guest. It starts no guest: if none runs, calls fail
	// with Unavailable.
	Room tools.Rooms
	// Boot identifies the running guest, even if it does not answer. It is empty if none runs.
	Boot func() string
	// Silent reports whether the guest does not answer at the moment.
	Silent func() bool
	Events Events
	// Secrets returns the values of a plugin's declared secrets as NAME=value.
	Secrets func(ctx context.Context, a tools.Agent, plugin config.PluginID, names []config.SecretName) ([]string, error)
	// Tell writes a line to the agent's log.
	Tell func(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error
	// Failed reports a daemon that is not started again until its plugin is enabled or a guest
	// starts. It must not block.
	Failed func(a tools.Agent, plugin config.PluginID, why error)
	Log    *slog.Logger
}

// Life runs the daemons and handlers of all plugins of a home. Its methods are safe for concurrent use.
type Life struct {
	Options
	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex // held for moments
	plugins map[key]*plugin
}

var _ install.Life = (*Life)(nil)

// key identifies a plugin of an agent.
type key struct {
	agent  config.AgentID
	plugin config.PluginID
}

// plugin is a plugin that has a daemon or handlers.
type plugin struct {
	of     *Life
	agent  atomic.Pointer[tools.Agent] // with its name when the guest started
	id     config.PluginID
	recipe plugins.Recipe
	hears  chan struct{}   // closed when its handlers receive events
	begun  notify.Notifier // notified by Begin

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a Life without plugins.
func New(o Options) *Life {
	l := &Life{Options: o, plugins: map[key]*plugin{}}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends all daemons and handlers.
func (l *Life) Close() {
	l.mu.Lock()
	l.end() // nothing new begins
	l.mu.Unlock()
	l.work.Wait()
}

// Begin starts a plugin's daemon and handlers. If they were started before, it makes those that
// wait try again.
func (l *Life) Begin(a tools.Agent, id config.PluginID, recipe plugins.Recipe) {
	p := &plugin{of: l, id: id, recipe: recipe, hears: make(chan struct{})}
	p.agent.Store(&a)
	daemon, hears := recipe.Daemon != nil, len(p.topics()) > 0
	if !hears {
		close(p.hears)
	}
	if !daemon && !hears {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.plugins[key{a.ID, id}]; there != nil {
		there.agent.Store(&a)
		there.begun.Notify()
		return
	}
	if l.life.Err() != nil {
		return
	}
	l.plugins[key{a.ID, id}] = p
	var ctx context.Context
	ctx, p.stop = context.WithCancel(l.life)
	if daemon {
		p.running.Go(func() { p.supervise(ctx) })
	}
	if hears {
		p.running.Go(func() { p.listen(ctx) })
	}
	l.work.Go(p.running.Wait)
}

// End ends a plugin's daemon and handlers, and waits for them.
func (l *Life) End(ctx context.Context, agent config.AgentID, id config.PluginID) error {
	l.mu.Lock()
	p := l.plugins[key{agent, id}]
	delete(l.plugins, key{agent, id})
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	p.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forget ends the daemons and handlers of a deleted agent. It does not wait.
func (l *Life) Forget(agent config.AgentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, p := range l.plugins {
		if k.agent == agent {
			p.stop()
			delete(l.plugins, k)
		}
	}
}

// Command gives a command of a plugin what its recipe declares: its identity at the bridge, its
// secrets, and its network. Setup always has the room's network.
func (l *Life) Command(ctx context.Context, a tools.Agent, id config.PluginID, recipe plugins.Recipe, setup bool, cmd *engine.Command) error {
	values, err := l.Secrets(ctx, a, id, recipe.Secrets)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, values...)
	if cmd.Plugin = id; !setup {
		cmd.Network = recipe.Permissions.CommandNetwork()
	}
	return nil
}

// command returns a command of the plugin.
func (p *plugin) command(ctx context.Context, script string, env []string) (engine.Command, error) {
	a := p.who()
	cmd := install.Command(a, p.id, script)
	cmd.Env = append(cmd.Env, env...)
	err := p.of.Command(ctx, a, p.id, p.recipe, false, &cmd)
	return cmd, err
}

// room returns the room of the plugin's agent.
func (p *plugin) room() engine.Room { return p.of.Room(p.who()) }

func (p *plugin) who() tools.Agent { return *p.agent.Load() }

// log writes a line to the agent's log.
func (p *plugin) log(ctx context.Context, level bridge.Level, text string) {
	a := p.who()
	who := bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User, Plugin: p.id}
	if err := p.of.Tell(ctx, who, level, text); err != nil && ctx.Err() == nil {
		p.of.Log.Warn("cannot write a plugin's line to its agent's log", "agent", a.Name, "plugin", p.id, "line", text, "error", err)
	}
}

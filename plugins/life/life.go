// Package life is what goes on by plugins that are installed: their daemons, what they hear, and what they may ask of the host.
package life

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"

	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/tools"

	"osaurus-sandbox/internal/notify"
)

// Rooms is where plugins' programs run. It starts no guest: where none runs, it fails with
// Unavailable.
type Rooms interface {
	// Boot names the guest that runs, be it one that does not answer at the moment; it is
	// empty without one.
	Boot() string
	// Silent reports whether that guest does not answer at the moment.
	Silent() bool
	// Room returns the agent's room in that guest.
	Room(a tools.Agent) engine.Room
}

// Seq is the number of an event, upwards over all agents.
type Seq int64

// Heard is an event that concerns an agent.
type Heard struct {
	Seq     Seq
	Time    time.Time
	Topic   bridge.Topic
	Source  string
	Payload json.RawMessage
	// Lost, if not 0, is in place of an event: so many, or less, are not kept any more.
	Lost int64
}

// Events are what programs tell.
type Events interface {
	// Last is the number of the newest event, of whomever.
	Last(ctx context.Context) (Seq, error)
	// Follow yields what an agent is told after a number, without end, until the context's.
	Follow(ctx context.Context, agent config.AgentID, after Seq, topics []plugins.Topics) iter.Seq2[Heard, error]
}

// Options are what plugins live by.
type Options struct {
	Rooms  Rooms
	Events Events
	// Secrets are the values of those that a plugin declares and has, as NAME=value.
	Secrets func(ctx context.Context, a tools.Agent, plugin config.PluginID, names []config.SecretName) ([]string, error)
	// Tell keeps a line in the log of the agent.
	Tell func(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error
	// Failed is told of a daemon that is not started again until its plugin is enabled anew, or
	// a guest starts. It must not wait.
	Failed func(a tools.Agent, plugin config.PluginID, why error)
	Log    *slog.Logger
}

// Life is what all plugins of a home run by themselves. Its methods may be called from any
// goroutine.
type Life struct {
	Options
	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex // held for moments
	plugins map[key]*plugin
}

var _ install.Life = (*Life)(nil)

// key is a plugin of an agent.
type key struct {
	agent  config.AgentID
	plugin config.PluginID
}

// plugin is one that lives.
type plugin struct {
	of     *Life
	agent  atomic.Pointer[tools.Agent] // as it was called when the guest started
	id     config.PluginID
	recipe plugins.Recipe
	hears  chan struct{}   // closed when it hears what is told from then on
	begun  notify.Notifier // rung when a guest has started, and when it is begun again

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns what no plugin lives in yet.
func New(o Options) *Life {
	l := &Life{Options: o, plugins: map[key]*plugin{}}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends all that plugins run by themselves. What is in the guest ends with that.
func (l *Life) Close() {
	l.mu.Lock()
	l.end() // and nothing new begins
	l.mu.Unlock()
	l.work.Wait()
}

// Begin has run what a plugin runs by itself. One that lives already is told that it may
// try again what it could not do before.
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

// End ends what a plugin runs by itself, and returns when it has ended.
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

// Forget ends what an agent's plugins run by themselves. The agent is gone, and what ran with it.
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

// Command makes a command of a plugin one that may do what its recipe declares, and no
// more: the guest tells the bridge whose it is, it finds the secrets that are declared, and
// without network it has none. Setup may fetch what the plugin needs.
func (l *Life) Command(ctx context.Context, a tools.Agent, id config.PluginID, recipe plugins.Recipe, setup bool, cmd *engine.Command) error {
	values, err := l.Secrets(ctx, a, id, recipe.Secrets)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, values...)
	cmd.Plugin, cmd.Offline = id, !setup && !recipe.Permissions.Online()
	return nil
}

// command is a command of the plugin.
func (p *plugin) command(ctx context.Context, script string, env []string) (engine.Command, error) {
	a := p.who()
	cmd := install.Command(a, p.id, script)
	cmd.Env = append(cmd.Env, env...)
	err := p.of.Command(ctx, a, p.id, p.recipe, false, &cmd)
	return cmd, err
}

func (p *plugin) who() tools.Agent { return *p.agent.Load() }

// log keeps a line for whoever looks after the agent.
func (p *plugin) log(ctx context.Context, level bridge.Level, text string) {
	a := p.who()
	who := bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User, Plugin: p.id}
	if err := p.of.Tell(ctx, who, level, text); err != nil && ctx.Err() == nil {
		p.of.Log.Warn("a plugin's line is not in its agent's log", "agent", a.Name, "plugin", p.id, "line", text, "error", err)
	}
}

// Package install installs, repairs and removes plugins in agents' rooms, and registers their tools.
package install

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// Secrets are the secrets that plugins may read: their own, then those of the agent.
type Secrets interface {
	// Has reports whether a secret has a value.
	Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error)
	// Ask asks a person for a value and stores it for the plugin. It fails with UserDenied
	// or Timeout.
	Ask(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName, why string) error
	// Forget removes the plugin's own secrets and its configuration.
	Forget(ctx context.Context, a tools.Agent, plugin config.PluginID) error
}

// Life runs the daemons and event handlers of installed plugins. Its methods are idempotent.
type Life interface {
	// Command gives a command of a plugin the secrets and the network that its recipe declares.
	Command(ctx context.Context, a tools.Agent, plugin config.PluginID, r plugins.Recipe, setup bool, cmd *engine.Command) error
	// Begin starts the daemon and handlers of a plugin that was installed or that is in a guest
	// which has just started. It neither blocks nor calls the installer.
	Begin(a tools.Agent, plugin config.PluginID, r plugins.Recipe)
	// End ends them and waits. The plugin is about to be changed or removed.
	End(ctx context.Context, agent config.AgentID, plugin config.PluginID) error
}

// Happening is an event about a plugin of an agent.
type Happening struct {
	What   What
	Agent  tools.Agent
	Plugin config.PluginID
	By     string
	Detail string
}

// What is the type of a Happening.
type What string

const (
	Installed   What = "plugin.installed"
	Updated     What = "plugin.updated"
	Failed      What = "plugin.failed" // the detail says at which step, and why
	Uninstalled What = "plugin.uninstalled"
	Enabled     What = "plugin.enabled"
	Disabled    What = "plugin.disabled"
	Repaired    What = "plugin.repaired"
	Damaged     What = "plugin.damaged" // found damaged, and not repaired
)

// Options configures an Installer.
type Options struct {
	Home config.Home
	// Agent looks up an agent, or fails with NotFound.
	Agent func(config.AgentID) (tools.Agent, error)
	// Start starts the guest unless it runs.
	Start func(context.Context) error
	// Boot identifies the running guest: it differs after each start and is "" while none
	// runs. It does not block.
	Boot func() string
	Room tools.Rooms
	// Packages installs the packages that plugins depend on, as tools.Installer.System does.
	Packages func(ctx context.Context, c *tools.Call, names []string) (tools.Installed, error)
	Secrets  Secrets
	Registry *tools.Registry
	Life     Life
	Note     func(Happening) // may be nil; must not block
	// Pause is the first pause after a failed verification. 0 is lookAgain.
	Pause time.Duration
	Log   *slog.Logger
}

// Installer manages the plugins of all agents of a home. Its methods are safe for concurrent
// use and return *fault.Error.
//
// A change of a plugin is a transaction: it is recorded before it touches anything, and after a
// crash the next daemon finishes it or undoes it. Changes of the same plugin of the same agent
// run one after the other.
type Installer struct {
	Options
	turns queue.Queues[key] // changes of one plugin
	life  context.Context   // ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup

	mu     sync.Mutex // also held while a record is written
	agents map[config.AgentID]*state
}

// state is the state of one agent's plugins. Installer.mu guards it.
type state struct {
	records
	broken error  // why the record cannot be read; it is not overwritten
	round  *round // the last verification, or the one that is running
}

// Open reads which plugins agents have, and registers their tools. Changes that the last daemon
// left unfinished are settled when the guest runs.
func Open(o Options, agents []config.AgentID) *Installer {
	i := &Installer{Options: o, agents: map[config.AgentID]*state{}}
	i.life, i.end = context.WithCancel(context.Background())
	for _, agent := range agents {
		s := i.stateOf(agent)
		if s.broken != nil {
			o.Log.Error("cannot load an agent's plugins", "agent", agent, "error", s.broken)
			continue
		}
		for _, r := range s.list {
			if err := i.register(agent, r.present()); err != nil {
				o.Log.Error("cannot register a plugin's tools", "agent", agent, "plugin", r.ID, "error", err)
			}
		}
	}
	return i
}

// Close ends verifications in the background. Other calls end with their callers' contexts.
func (i *Installer) Close() {
	i.mu.Lock()
	i.end() // nothing new begins
	i.mu.Unlock()
	i.work.Wait()
}

// stateOf returns the state of an agent's plugins and reads it the first time. The caller holds
// the mutex.
func (i *Installer) stateOf(agent config.AgentID) *state {
	s := i.agents[agent]
	if s == nil {
		s = &state{}
		s.records, s.broken = load(i.Home.InstalledPlugins(agent))
		i.agents[agent] = s
	}
	return s
}

// List returns an agent's plugins, sorted by id.
func (i *Installer) List(agent config.AgentID) ([]Record, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(agent)
	return s.sorted(), s.broken
}

// Find returns an agent's plugin, whatever its status.
func (i *Installer) Find(agent config.AgentID, plugin config.PluginID) (Record, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, ok := i.stateOf(agent).list[plugin]
	return r, ok
}

// get is Find with an error for a missing plugin.
func (i *Installer) get(op string, a tools.Agent, plugin config.PluginID) (Record, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(a.ID)
	if s.broken != nil {
		return Record{}, s.broken
	}
	if r, ok := s.list[plugin]; ok {
		return r, nil
	}
	return Record{}, fault.Newf(fault.NotFound, op, string(plugin), "%s does not have it", a.Name).
		Advise("See `osaurus-sandbox plugin status " + string(a.Name) + "`.")
}

// put saves a record to disk, or removes the plugin's record if r is nil. After an error the
// records are unchanged.
func (i *Installer) put(agent config.AgentID, plugin config.PluginID, r *Record) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(agent)
	if s.broken != nil {
		return s.broken
	}
	if _, err := i.Agent(agent); err != nil {
		return err // the agent was deleted, and its record with it
	}
	next, err := s.with(plugin, r)
	if err != nil {
		return err
	}
	if err := next.save(i.Home.InstalledPlugins(agent)); err != nil {
		return err
	}
	s.records = next
	return nil
}

// register lists a plugin's tools for its agent, or none if they cannot be called.
func (i *Installer) register(agent config.AgentID, r Record) error {
	var list []tools.Tool
	if r.callable() {
		list = i.toolsOf(r)
	}
	return i.Registry.Assign(agent, r.ID, list...)
}

// begin starts the daemon and handlers of a plugin if it is callable. The caller has the turn.
// The mutex stays held, so that Forget, which takes no turn, cannot run in between.
func (i *Installer) begin(a tools.Agent, plugin config.PluginID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r, ok := i.stateOf(a.ID).list[plugin]; ok && r.callable() {
		i.Life.Begin(a, plugin, r.Plugin)
	}
}

func (i *Installer) note(what What, a tools.Agent, plugin config.PluginID, by, detail string) {
	if i.Note != nil {
		i.Note(Happening{What: what, Agent: a, Plugin: plugin, By: by, Detail: detail})
	}
}

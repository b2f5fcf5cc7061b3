// Package install puts plugins into agents' rooms, each as a whole or not at all, keeps them whole, and has their tools listed.
package install

import (
	"context"
	"log/slog"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// Rooms is where plugins are installed and run.
type Rooms interface {
	// Agent is an agent as tools know it; NotFound if there is none.
	Agent(id config.AgentID) (tools.Agent, error)
	// Start has a guest run.
	Start(ctx context.Context) error
	// Boot tells guests apart: it is another one after each start, and "" while none
	// runs. It does not wait.
	Boot() string
	// Room returns the agent's room.
	Room(a tools.Agent) engine.Room
}

// Packages installs what plugins depend on: see tools.Installer.
type Packages interface {
	System(ctx context.Context, c *tools.Call, names []string) (tools.Installed, error)
}

// Secrets are what plugins may read: the plugin's own, and then the agent's.
type Secrets interface {
	// Has reports whether there is a value for a name.
	Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error)
	// Ask asks a person for one, and keeps it for the plugin. It fails with UserDenied
	// and Timeout.
	Ask(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName, why string) error
	// Forget removes all that are the plugin's own, and what it remembers of itself.
	Forget(ctx context.Context, a tools.Agent, plugin config.PluginID) error
}

// Life is what goes on by an installed plugin beside its tools' calls. Its methods
// may be called again for what they have done already.
type Life interface {
	// Command makes a command of a plugin one that may do what its recipe declares, and
	// no more.
	Command(ctx context.Context, a tools.Agent, plugin config.PluginID, r plugins.Recipe, setup bool, cmd *engine.Command) error
	// Begin has run what the plugin runs by itself. It is called once the plugin is
	// there, and when a guest that started has it still, and neither waits nor calls the installer.
	Begin(a tools.Agent, plugin config.PluginID, r plugins.Recipe)
	// End ends that, and returns when it has. The plugin is about to be changed or to go.
	End(ctx context.Context, agent config.AgentID, plugin config.PluginID) error
}

// Happening is what became of a plugin of an agent, for the journal of events.
type Happening struct {
	What   What
	Agent  tools.Agent
	Plugin config.PluginID
	By     string
	Detail string
}

// What happens to plugins.
type What string

const (
	Installed   What = "plugin.installed"
	Updated     What = "plugin.updated"
	Failed      What = "plugin.failed" // the detail says where, and why
	Uninstalled What = "plugin.uninstalled"
	Enabled     What = "plugin.enabled"
	Disabled    What = "plugin.disabled"
	Repaired    What = "plugin.repaired"
	Damaged     What = "plugin.damaged" // verified, and not as it should be
)

// Options are what plugins are installed with.
type Options struct {
	Home     config.Home
	Rooms    Rooms
	Packages Packages
	Secrets  Secrets
	Registry *tools.Registry
	Life     Life
	Note     func(Happening) // nil is nobody; it must not wait
	// Program is this program's release, which verified plugins are stamped with.
	Program string
	Log     *slog.Logger
}

// Installer has the plugins of all agents of a home. Its methods may be called
// from any goroutine; their errors are *fault.Error.
//
// A change of a plugin is a transaction: it is in the agent's record before it
// touches anything, and a daemon that is killed leaves nothing that the next one
// does not finish or take back. Changes of one plugin of one agent come one after
// the other, others do not wait for each other.
type Installer struct {
	Options
	turns queue.Queues[key] // to change a plugin
	life  context.Context   // ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup

	mu     sync.Mutex // held for moments, and for the write of a record
	agents map[config.AgentID]*shelf
}

// shelf is what is known of an agent's plugins. Installer.mu guards it.
type shelf struct {
	records
	broken   error  // the record cannot be read, and is not written
	verified string // the boot in which all were looked at, and mended where need be
	looking  *round // of looks, under way
}

// Open reads which plugins agents have, and has their tools listed. What was
// under way when the last daemon ended is settled when the guest runs.
func Open(o Options, agents []config.AgentID) *Installer {
	i := &Installer{Options: o, agents: map[config.AgentID]*shelf{}}
	i.life, i.end = context.WithCancel(context.Background())
	for _, agent := range agents {
		s := i.shelfOf(agent)
		if s.broken != nil {
			o.Log.Error("an agent's plugins are not there", "agent", agent, "error", s.broken)
			continue
		}
		for _, r := range s.list {
			if err := i.register(agent, r.present()); err != nil {
				o.Log.Error("a plugin's tools are not there", "agent", agent, "plugin", r.ID, "error", err)
			}
		}
	}
	return i
}

// Close ends what goes on by itself. A change that is under way belongs to who
// asked for it.
func (i *Installer) Close() {
	i.mu.Lock()
	i.end() // and nothing new begins
	i.mu.Unlock()
	i.work.Wait()
}

// shelfOf is an agent's shelf, read when it is first asked for. The mutex is held,
// or nobody else is there yet.
func (i *Installer) shelfOf(agent config.AgentID) *shelf {
	s := i.agents[agent]
	if s == nil {
		s = &shelf{}
		s.records, s.broken = load(i.Home.InstalledPlugins(agent))
		i.agents[agent] = s
	}
	return s
}

// List are an agent's plugins, by id.
func (i *Installer) List(agent config.AgentID) ([]Record, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.shelfOf(agent)
	return append([]Record(nil), s.list...), s.broken
}

// Find is an agent's plugin, in whatever state.
func (i *Installer) Find(agent config.AgentID, plugin config.PluginID) (Record, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.shelfOf(agent).find(plugin)
}

// get is Find for who needs it.
func (i *Installer) get(op string, a tools.Agent, plugin config.PluginID) (Record, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.shelfOf(a.ID)
	if s.broken != nil {
		return Record{}, s.broken
	}
	if r, ok := s.find(plugin); ok {
		return r, nil
	}
	return Record{}, fault.Newf(fault.NotFound, op, string(plugin), "%s does not have it", a.Name).
		Advise("See `osaurus-sandbox plugin status " + string(a.Name) + "`.")
}

// put keeps a record, or with a nil one removes what there is of the plugin. It is on
// the disk when put returns without an error, and else as it was.
func (i *Installer) put(agent config.AgentID, plugin config.PluginID, r *Record) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.shelfOf(agent)
	if s.broken != nil {
		return s.broken
	}
	if _, err := i.Rooms.Agent(agent); err != nil {
		return err // it was deleted meanwhile, and so was its record
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

// register has a plugin's tools be listed for its agent as the record says.
func (i *Installer) register(agent config.AgentID, r Record) error {
	var list []tools.Tool
	if r.callable() {
		list = i.toolsOf(r)
	}
	return i.Registry.Assign(agent, r.ID, list...)
}

// begin has what a plugin runs by itself run, if it is callable. The turn is the caller's. Forget takes none:
// whoever ends what runs after it ends all, for the mutex is held.
func (i *Installer) begin(a tools.Agent, plugin config.PluginID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r, ok := i.shelfOf(a.ID).find(plugin); ok && r.callable() {
		i.Life.Begin(a, plugin, r.Plugin)
	}
}

func (i *Installer) note(what What, a tools.Agent, plugin config.PluginID, by, detail string) {
	if i.Note != nil {
		i.Note(Happening{What: what, Agent: a, Plugin: plugin, By: by, Detail: detail})
	}
}

// idOf is a recipe's id, if nothing is wrong with the recipe.
func idOf(r plugins.Recipe) (config.PluginID, plugins.Hash, error) {
	if err := plugins.Refusal(plugins.Validate(r)); err != nil {
		return "", "", err
	}
	id, err := r.ID()
	if err != nil {
		return "", "", err
	}
	hash, err := r.Hash()
	return id, hash, err
}

// Package register makes plugins of what agents write: one pipeline behind the tool, the bridge, the API and the command line.
package register

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/tools"
)

const op = "register plugin"

// An agent that registers a plugin waits, in a conversation or at the bridge, and hears of it only within a request
// of the bridge: so long may an installation take, with what it takes to take it back, and a minute for the rest.
// A person who installs one may wait for longer.
const (
	toolBudget  = bridge.RequestTimeout - time.Minute // which clients of MCP wait for, too
	installTime = toolBudget - install.UndoTime
)

// Via is the way by which a plugin was registered, as its recipe is stamped.
type Via string

const (
	Tool   Via = "agent_tool"
	Bridge Via = "host_bridge"
	API    Via = "control_api" // a person's, or an app's
)

// Library keeps recipes: see library.Library.
type Library interface {
	Get(id config.PluginID) (library.Entry, error)
	Save(r plugins.Recipe, may func(old library.Entry) error) (library.Entry, error)
	Undo(id config.PluginID, n library.Revision) error
}

// Secrets are what plugins may read.
type Secrets interface {
	// Has reports whether there is a value for a name: the plugin's own, or the agent's.
	Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error)
}

// Notice is a plugin that was registered, for whoever looks after the agent.
type Notice struct {
	Agent tools.Agent
	Via   Via
	Made  Made
}

// Remove is how a person takes it back.
func (n Notice) Remove() string {
	return fmt.Sprintf("osaurus-sandbox plugin uninstall %s %s", n.Made.ID, n.Agent.Name)
}

// Options are what plugins are registered with.
type Options struct {
	// Room returns the room of an agent, where its files are.
	Room    tools.Rooms
	Library Library
	Secrets Secrets
	// Running reports whether a guest runs. It does not wait.
	Running func() bool
	// Mirrors are the hosts that the guest's own package managers are set to.
	Mirrors func() []string
	// Install installs a plugin of the library for an agent, and has its tools be there to be
	// called when it returns.
	Install func(ctx context.Context, a tools.Agent, e library.Entry, via Via, tell func(string)) error
	// Note tells whoever looks after the agent; it must not wait.
	Note func(Notice)
}

// Registrar registers plugins. Its methods may be called from any goroutine; their errors
// are *fault.Error.
type Registrar struct {
	Options
	windows windows

	mu   sync.Mutex
	busy map[config.PluginID]bool // being registered
}

// New returns a registrar.
func New(o Options) *Registrar {
	return &Registrar{Options: o, windows: windows{of: map[config.AgentID]*window{}}, busy: map[config.PluginID]bool{}}
}

// Made is a plugin that was registered.
type Made struct {
	ID    config.PluginID
	Name  string
	Tools []MadeTool
	// Caveats are what of its recipe was changed or is not enforced, in sentences.
	Caveats []string
}

// MadeTool is a tool that can be called now.
type MadeTool struct {
	Name        tools.Name
	Description string
}

// Register makes a plugin of a recipe that an agent wrote: it is checked, restricted to what an
// agent may give itself, kept in the library, installed for the agent, and its tools can be called
// when Register returns. Nothing is kept of one that is refused or does not install. Tell, if not
// nil, is told how far it is.
//
// Its errors: InvalidArgs is for the recipe, Rejected with a bridge.Limited for too many at a time, Unavailable
// without a guest, and Rejected for a plugin that is not the agent's to replace. What goes wrong with the
// installation has the kind that it has, and is Execution if nothing better is known.
func (g *Registrar) Register(ctx context.Context, a tools.Agent, r plugins.Recipe, via Via, tell func(string)) (Made, error) {
	if tell == nil {
		tell = func(string) {}
	}
	if err := plugins.Refusal(plugins.Validate(r)); err != nil {
		return Made{}, err
	}
	id, err := r.ID()
	if err != nil {
		return Made{}, err
	}
	if err := g.begin(id); err != nil {
		return Made{}, err
	}
	defer g.done(id)
	if err := g.checkHosts(r); err != nil {
		return Made{}, err
	}
	if err := g.secrets(ctx, a, id, r); err != nil {
		return Made{}, err
	}
	if err := g.windows.take(a.ID); err != nil {
		return Made{}, err
	}
	if !g.Running() {
		return Made{}, fault.Newf(fault.Unavailable, op, string(id), "the sandbox is not running").Advise("Start it: osaurus-sandbox up")
	}
	restricted, caveats := restrict(r, a, via)
	tell("keeping " + string(id) + " in the library")
	entry, undo, err := g.keep(restricted, id, a)
	if err != nil {
		return Made{}, err
	}
	if err := g.install(ctx, a, entry, via, tell); err != nil {
		return Made{}, failed(id, errors.Join(err, undo()))
	}
	made := Made{ID: id, Name: r.Name, Caveats: append(caveats, restricted.Caveats()...)}
	for _, t := range r.Tools {
		made.Tools = append(made.Tools, MadeTool{Name: tools.Name(plugins.ToolName(id, t.ID)), Description: t.Description})
	}
	g.Note(Notice{Agent: a, Via: via, Made: made})
	return made, nil
}

// install installs a plugin of the library, in time.
func (g *Registrar) install(ctx context.Context, a tools.Agent, e library.Entry, via Via, tell func(string)) error {
	over := fmt.Errorf("it was not done after %v", installTime)
	ctx, cancel := context.WithTimeoutCause(ctx, installTime, over)
	defer cancel()
	err := g.Install(ctx, a, e, via, tell)
	if err != nil && context.Cause(ctx) == over {
		return fault.Newf(fault.Timeout, "install plugin", string(e.ID), "%w: %w", over, err).
			Advise("Have it install less. A person can give it more time: osaurus-sandbox plugin import, then plugin install.")
	}
	return err
}

// keep has a recipe be its plugin's newest in the library, until undo.
func (g *Registrar) keep(r plugins.Recipe, id config.PluginID, a tools.Agent) (_ library.Entry, undo func() error, _ error) {
	before, err := g.Library.Get(id)
	switch kind := fault.KindOf(err); {
	case err == nil || kind == fault.NotFound:
	case kind == fault.InvalidArgs:
		return library.Entry{}, nil, fault.Newf(fault.Rejected, op, string(id), "its file in the library is broken").
			Advise("A person mends it: osaurus-sandbox plugin edit " + string(id))
	default:
		return library.Entry{}, nil, err
	}
	entry, err := g.Library.Save(r, func(old library.Entry) error { return replaceable(old, a) })
	return entry, func() error {
		if entry.Hash == before.Hash { // its file may have had no revision until now
			return nil // it was there already
		}
		return g.Library.Undo(id, entry.Revision)
	}, err
}

// begin has one plugin be registered once at a time: of two, the second would undo the first.
func (g *Registrar) begin(id config.PluginID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[id] {
		return fault.New(fault.Rejected, op, string(id), &bridge.Limited{Why: "one registration of a plugin at a time", After: busyAgain}).Advise("Wait until it is done.")
	}
	g.busy[id] = true
	return nil
}

func (g *Registrar) done(id config.PluginID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, id)
}

// failed is why a plugin that is right could not be installed.
func failed(id config.PluginID, err error) error {
	kind := fault.KindOf(err)
	if kind == fault.InvalidArgs || kind == fault.NotFound { // of a command within, not of who asked
		kind = fault.Execution
	}
	return fault.Newf(kind, op, string(id), "install: %w", err).Advise(fault.AdviceOf(err))
}

// Read reads a recipe's text, as whoever registers it hands it over.
func Read(text []byte) (plugins.Recipe, error) {
	if len(text) > plugins.MaxRecipe {
		return plugins.Recipe{}, fault.Newf(fault.InvalidArgs, "read recipe", "", "it has more than %d bytes", plugins.MaxRecipe).Advise("Have setup download what is big.")
	}
	return plugins.Parse(text)
}

// list is names with commas between them.
func list[T ~string](names []T) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	return strings.Join(text, ", ")
}

// Package register turns what agents write into plugins. The tool, the bridge, the API and the command line all use it.
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

const (
	// toolBudget lets the answer arrive within one request of the bridge.
	toolBudget = bridge.RequestTimeout - time.Minute
	// installTime leaves time to undo a failed installation.
	installTime = toolBudget - install.UndoTime
	// perMinute bounds the registrations of an agent, for models that repeat them in a loop.
	perMinute = 10
	// busyAgain is when to retry while the plugin is being registered: most install in that time.
	busyAgain = 10 * time.Second
)

// installed is the status of a registered plugin.
const installed = "installed"

// Via says how a plugin was registered. It is written into its recipe.
type Via string

const (
	Tool   Via = "agent_tool"
	Bridge Via = "host_bridge"
	API    Via = "control_api" // a person or an app
)

// Library keeps recipes: see library.Library.
type Library interface {
	Get(id config.PluginID) (library.Entry, error)
	Save(r plugins.Recipe, may func(old library.Entry) error) (library.Entry, error)
	Undo(id config.PluginID, n library.Revision) error
}

// Secrets tells which secrets a plugin can read.
type Secrets interface {
	// Has reports whether there is a value for a name: the plugin's own, or the agent's.
	Has(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error)
}

// Notice reports a registered plugin.
type Notice struct {
	Agent tools.Agent
	Via   Via
	Made  bridge.Created
}

// Remove returns the command that uninstalls the plugin.
func (n Notice) Remove() string {
	return fmt.Sprintf("osaurus-sandbox plugin uninstall %s %s", n.Made.ID, n.Agent.Name)
}

// Options configures a Registrar.
type Options struct {
	// Room returns the room of an agent, where its files are.
	Room    tools.Rooms
	Library Library
	Secrets Secrets
	// Running reports whether a guest runs. It does not wait.
	Running func() bool
	// Mirrors returns the hosts that the guest's package managers use.
	Mirrors func() []string
	// Install installs a plugin of the library for an agent. Its tools can be called when
	// Install returns.
	Install func(ctx context.Context, a tools.Agent, e library.Entry, via Via, tell func(string)) error
	// Note reports a registered plugin. It must not block.
	Note func(Notice)
}

// Registrar registers plugins. Its methods are safe for concurrent use and return *fault.Error.
type Registrar struct {
	Options

	mu      sync.Mutex
	windows map[config.AgentID]*bridge.Window
	busy    map[config.PluginID]bool // being registered
}

// New returns a registrar.
func New(o Options) *Registrar {
	return &Registrar{Options: o, windows: map[config.AgentID]*bridge.Window{}, busy: map[config.PluginID]bool{}}
}

// Register checks a recipe that an agent wrote, restricts its permissions, saves it in the library
// and installs it for the agent. When Register returns, its tools can be called. After an error the
// library is as before. Tell, if not nil, receives progress.
//
// It fails with InvalidArgs for a wrong recipe, with Rejected and a bridge.Limited for too many
// registrations, with Rejected for a plugin that the agent may not replace, and with Unavailable if
// no guest runs. Other kinds come from the installation.
func (g *Registrar) Register(ctx context.Context, a tools.Agent, r plugins.Recipe, via Via, tell func(string)) (made bridge.Created, err error) {
	var none bridge.Created
	if tell == nil {
		tell = func(string) {}
	}
	if err := plugins.Refusal(plugins.Validate(r)); err != nil {
		return none, err
	}
	id, err := r.ID()
	if err != nil {
		return none, err
	}
	if err := g.begin(id); err != nil {
		return none, err
	}
	defer g.done(id)
	if err := g.checkHosts(r); err != nil {
		return none, err
	}
	if err := g.secrets(ctx, a, id, r); err != nil {
		return none, err
	}
	if after, ok := g.window(a.ID).Take(perMinute); !ok {
		return none, fault.New(fault.Rejected, op, "", &bridge.Limited{Why: fmt.Sprintf("%d plugins a minute", perMinute), After: after}).Advise("Wait, and register less often.")
	}
	if !g.Running() {
		return none, fault.Newf(fault.Unavailable, op, string(id), "the sandbox is not running").Advise("Start it: osaurus-sandbox up")
	}
	restricted, caveats := restrict(r, a, via)
	tell("keeping " + string(id) + " in the library")
	entry, undo, err := g.keep(restricted, id, a)
	if err != nil {
		return none, err
	}
	if err := g.install(ctx, a, entry, via, tell); err != nil {
		return none, failed(id, errors.Join(err, undo()))
	}
	made = bridge.Created{Status: installed, ID: id, Name: r.Name, Warnings: append(caveats, restricted.Caveats()...)}
	for _, t := range r.Tools {
		made.Tools = append(made.Tools, bridge.CreatedTool{Name: plugins.ToolName(id, t.ID), Description: t.Description})
	}
	g.Note(Notice{Agent: a, Via: via, Made: made})
	return made, nil
}

// install installs a plugin of the library within installTime.
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

// keep saves a recipe in the library. Calling undo restores what was there.
func (g *Registrar) keep(r plugins.Recipe, id config.PluginID, a tools.Agent) (_ library.Entry, undo func() error, _ error) {
	before, err := g.Library.Get(id)
	switch kind := fault.KindOf(err); {
	case err == nil || kind == fault.NotFound:
	case kind == fault.InvalidArgs:
		return library.Entry{}, nil, fault.Newf(fault.Rejected, op, string(id), "its file in the library is broken").
			Advise("A person repairs it: osaurus-sandbox plugin edit " + string(id))
	default:
		return library.Entry{}, nil, err
	}
	entry, err := g.Library.Save(r, func(old library.Entry) error { return replaceable(old, a) })
	return entry, func() error {
		if entry.Hash == before.Hash { // a file that was put there by hand has no revision yet
			return nil // it was there already
		}
		return g.Library.Undo(id, entry.Revision)
	}, err
}

// window returns the registrations of an agent within the last minute.
func (g *Registrar) window(agent config.AgentID) *bridge.Window {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.windows[agent] == nil {
		g.windows[agent] = &bridge.Window{}
	}
	return g.windows[agent]
}

// begin refuses a plugin that is being registered already. If both failed, one would undo the
// other's change of the library.
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

// failed returns the error for a correct recipe that could not be installed.
func failed(id config.PluginID, err error) error {
	kind := fault.KindOf(err)
	if kind == fault.InvalidArgs || kind == fault.NotFound { // of a command in the recipe, not of the caller
		kind = fault.Execution
	}
	return fault.Newf(kind, op, string(id), "install: %w", err).Advise(fault.AdviceOf(err))
}

// Read parses the text of a recipe.
func Read(text []byte) (plugins.Recipe, error) {
	if len(text) > plugins.MaxRecipe {
		return plugins.Recipe{}, fault.Newf(fault.InvalidArgs, "read recipe", "", "it has more than %d bytes", plugins.MaxRecipe).Advise("Have setup download what is big.")
	}
	return plugins.Parse(text)
}

// list joins names with commas.
func list[T ~string](names []T) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	return strings.Join(text, ", ")
}

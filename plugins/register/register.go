// Package register turns what agents write into plugins. The tool, the bridge, the API and the command line all use it.
package register

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
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
	Library *library.Library
	// Agent looks up an agent.
	Agent func(config.AgentID) (tools.Agent, error)
	// Has reports whether an agent has a plugin or is installing it.
	Has func(agent config.AgentID, plugin config.PluginID) bool
	// HasSecret reports whether a plugin can read a secret: one of its own, or of the agent.
	HasSecret func(ctx context.Context, a tools.Agent, plugin config.PluginID, name config.SecretName) (bool, error)
	// Running reports whether a guest runs. It does not wait.
	Running func() bool
	// Mirrors returns the hosts that the guest's package managers use.
	Mirrors func() []string
	// Install installs a plugin for an agent. Its tools can be called when Install returns.
	Install func(ctx context.Context, a tools.Agent, r plugins.Recipe, via Via, tell func(string)) error
	// Note reports a registered plugin. It must not block.
	Note func(Notice)
}

// Registrar registers plugins. Its methods are safe for concurrent use and return *fault.Error.
type Registrar struct {
	Options
	turns queue.Queues[config.PluginID] // held from Library.Check to Library.Save

	mu      sync.Mutex
	windows map[config.AgentID]*bridge.Window
}

var _ bridge.Plugins = (*Registrar)(nil)

// New returns a registrar.
func New(o Options) *Registrar {
	return &Registrar{Options: o, windows: map[config.AgentID]*bridge.Window{}}
}

// Installed reports whether an agent has a plugin or is installing it.
func (g *Registrar) Installed(agent config.AgentID, plugin config.PluginID) bool {
	return g.Has(agent, plugin)
}

// Create registers a plugin for a program in a room.
func (g *Registrar) Create(ctx context.Context, who bridge.Caller, recipe json.RawMessage) (bridge.Created, error) {
	a, err := g.Agent(who.Agent)
	if err != nil {
		return bridge.Created{}, err
	}
	if err := tools.Plugins.Check("making plugins", a); err != nil {
		return bridge.Created{}, fault.New(fault.Rejected, op, "", err)
	}
	r, err := plugins.Parse(recipe)
	if err != nil {
		return bridge.Created{}, err
	}
	return g.Register(ctx, a, r, Bridge, nil)
}

// Register restricts the permissions of a valid recipe that an agent wrote, installs it for the agent
// and saves it in the library. When Register returns, its tools can be called. After an error the
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
	id, err := r.ID()
	if err != nil {
		return none, err
	}
	done, err := g.turns.Take(ctx, id, nil)
	if err != nil {
		return none, fault.New(fault.KindOf(err), op, string(id), err)
	}
	defer done()
	if err := g.checkHosts(r); err != nil {
		return none, err
	}
	if err := g.checkSecrets(ctx, a, id, r); err != nil {
		return none, err
	}
	if after, ok := g.window(a.ID).Take(perMinute); !ok {
		return none, fault.New(fault.Rejected, op, "", &bridge.Limited{Why: fmt.Sprintf("%d plugins a minute", perMinute), After: after}).Advise("Wait, and register less often.")
	}
	if !g.Running() {
		return none, fault.Newf(fault.Unavailable, op, string(id), "the sandbox is not running").Advise("Start it: osaurus-sandbox up")
	}
	restricted, caveats := restrict(r, a, via)
	if _, err := g.Library.Get(id); fault.KindOf(err) == fault.InvalidArgs {
		return none, fault.New(fault.Rejected, op, string(id), err).Advise("A person must correct its file: osaurus-sandbox plugin edit " + string(id))
	}
	mayReplace := func(old library.Entry) error { return replaceable(old, a) }
	if err := g.Library.Check(restricted, mayReplace); err != nil {
		return none, err
	}
	if err := g.install(ctx, a, id, restricted, via, tell); err != nil {
		return none, failed(id, err)
	}
	if _, err := g.Library.Save(restricted, mayReplace); err != nil {
		caveats = append(caveats, fmt.Sprintf("It is installed, but not kept in the library: %v.", err))
	}
	made = bridge.Created{Status: installed, ID: id, Name: r.Name, Warnings: append(caveats, restricted.Caveats()...)}
	for _, t := range r.Tools {
		made.Tools = append(made.Tools, bridge.CreatedTool{Name: plugins.ToolName(id, t.ID), Description: t.Description})
	}
	g.Note(Notice{Agent: a, Via: via, Made: made})
	return made, nil
}

// install installs a plugin within installTime.
func (g *Registrar) install(ctx context.Context, a tools.Agent, id config.PluginID, r plugins.Recipe, via Via, tell func(string)) error {
	over := fmt.Errorf("it did not finish within %v", installTime)
	ctx, cancel := context.WithTimeoutCause(ctx, installTime, over)
	defer cancel()
	err := g.Install(ctx, a, r, via, tell)
	if err != nil && context.Cause(ctx) == over {
		return fault.Newf(fault.Timeout, "install plugin", string(id), "%w: %w", over, err).
			Advise("Have it install less. A person can give it more time: osaurus-sandbox plugin import, then plugin install.")
	}
	return err
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

// failed returns the error for a correct recipe that could not be installed.
func failed(id config.PluginID, err error) error {
	kind := fault.KindOf(err)
	if kind == fault.InvalidArgs || kind == fault.NotFound { // of a command in the recipe, not of the caller
		kind = fault.Execution
	}
	return fault.Newf(kind, op, string(id), "install: %w", err).Advise(fault.AdviceOf(err))
}

// checkHosts refuses a command with a literal address of a host that the recipe does not declare. It catches
// honest mistakes early; what a command really reaches is up to the network policy.
func (g *Registrar) checkHosts(r plugins.Recipe) error {
	allowed := plugins.PackageHosts()
	for _, host := range g.Mirrors() {
		if !slices.Contains(allowed, host) {
			allowed = append(allowed, host)
		}
	}
	allowed = append(allowed, r.Permissions.Network.Domains()...)
	for _, c := range r.Commands() {
		if outside := plugins.HostsOutside(c.Text, allowed); len(outside) > 0 {
			return fault.Newf(fault.InvalidArgs, op, c.Path, "it names the host %s, which is not allowed", outside[0]).
				Advise(`Add it to "permissions", as in "network": "api.example.com", or remove it. Always allowed: ` + strings.Join(allowed, ", ") +
					". The network policy enforces what the command can reach.")
		}
	}
	return nil
}

// checkSecrets refuses a recipe if one of its secrets has no value. It asks nobody.
func (g *Registrar) checkSecrets(ctx context.Context, a tools.Agent, id config.PluginID, r plugins.Recipe) error {
	var missing []string
	for _, name := range r.Secrets {
		has, err := g.HasSecret(ctx, a, id, name)
		if err != nil {
			return err
		}
		if !has {
			missing = append(missing, string(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.Newf(fault.InvalidArgs, op, "$.secrets", "no value is set for %s", strings.Join(missing, ", ")).
		Advise("Ask for each with sandbox_secret_set, without a value: a person enters it. Then register again.")
}

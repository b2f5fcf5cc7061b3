package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/inference"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/plugins/source"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/mounts"
	"osaurus-sandbox/supervisor/pluginhost"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/snapshots"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/vm"
)

// endLimit is how long the guest has to end when the daemon does: what it takes
// to stop commands, write its disks and power off, on a busy host.
const endLimit = 45 * time.Second

// maxLog is how large a log grows before it is rotated. With the one before it, that is
// some hundred thousand lines.
const maxLog = 8 << 20

// daemon is what Run builds, in the order of its fields.
type daemon struct {
	Options
	back []func() error // what giveBack calls, the last first

	lock *homelock.Lock
	api  control.Backing // what the API offers, filled as it is made

	db *store.DB

	folders  *vm.Subtrees
	tokens   *bridge.Tokens
	bridge   *bridge.Server
	machines *machine.Fleet // holds api.Sandbox, which all agents share
	stop     func() error   // ends the guest once; later calls wait and return the same error

	asker   *egress.Asker
	config  *services.PluginConfig
	tools   toolhost.Options
	plugins *pluginhost.Host
}

// after adds a function for giveBack, which calls it before all earlier ones.
func (d *daemon) after(give func() error) { d.back = append(d.back, give) }

// closes is after for functions without an error.
func (d *daemon) closes(end func()) {
	d.after(func() error {
		end()
		return nil
	})
}

func (d *daemon) giveBack() (err error) {
	for _, give := range slices.Backward(d.back) {
		err = errors.Join(err, give())
	}
	return err
}

// takeHome locks the home and opens its log.
func (d *daemon) takeHome(ctx context.Context) (err error) {
	if d.lock, err = homelock.Take(ctx, d.Home); err != nil {
		return err
	}
	d.after(d.lock.Release)
	if _, err := d.Home.Make(d.Home.Logs()); err != nil {
		return err
	}
	path := control.DaemonLog(d.Home)
	file, err := config.OpenCrashLog(path, maxLog)
	if err != nil {
		return fault.New(fault.Unavailable, "open log", path, err).Advise("Make it and its folder writable for you, or set " + config.HomeVariable + " to another home.")
	}
	d.after(file.Close)
	var to io.Writer = file
	if d.Log != nil {
		to = io.MultiWriter(file, d.Log)
	}
	d.api.Log = slog.New(slog.NewTextHandler(to, nil))
	return nil
}

// openRecords opens the database, the journal and the audit.
func (d *daemon) openRecords(ctx context.Context) (err error) {
	if d.db, err = store.Open(ctx, d.Home.Database()); err != nil {
		return err
	}
	d.after(d.db.Close)
	if d.api.Events, err = events.Open(ctx, d.db, d.api.Log); err != nil {
		return err
	}
	d.closes(d.api.Events.Close)
	d.api.Audit = audit.New(d.db)
	return nil
}

// finishRestore puts a snapshot in place whose restore was begun, before anything uses the state.
func (d *daemon) finishRestore(ctx context.Context) error {
	name, err := snapshots.Finish(ctx, d.Home, d.db)
	if err == nil && name != "" {
		d.api.Events.Note(events.Event{Kind: snapshots.Restored, Cause: string(machine.CauseBegin), Fields: map[string]string{"snapshot": name}})
	}
	return err
}

// makeSandbox makes the machine, whose guest does not run yet, and its bridge.
func (d *daemon) makeSandbox(ctx context.Context) (err error) {
	d.folders, d.tokens = new(vm.Subtrees), bridge.NewTokens()
	d.bridge = bridge.NewServer(bridge.Options{
		Tokens: d.tokens, Limits: func() config.BridgeLimits { return d.api.Sandbox.Settings().Bridge }, Log: d.api.Log,
		Audit: programs{d.api.Audit, d.api.Log, func(agent config.AgentID) *redact.Scrubber { return d.api.Vault.Redacted(agent) }},
	})
	d.after(d.bridge.Close)
	if before, ok := d.lock.Before(); ok {
		d.api.Events.Note(events.Event{Kind: machine.OwnerGone, Cause: string(machine.CauseBegin), Fields: map[string]string{"detail": before.String()}})
	}
	d.api.Sandbox, err = machine.New(ctx, machine.Options{
		Home: d.Home, Driver: d.Driver, Record: d.api.Events, Log: d.api.Log, Backend: d.Backend, Folders: d.folders, Bridge: d.bridge, Network: d.gateway(),
	})
	if err != nil {
		return err
	}
	d.machines = machine.NewFleet(d.api.Sandbox)
	d.stop = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		return d.api.Sandbox.Close(ctx)
	})
	d.after(d.stop)
	return nil
}

// makeResidents makes what belongs to agents: secrets, prompts, rooms, shells, artifacts.
func (d *daemon) makeResidents(ctx context.Context) (err error) {
	bindings, err := vault.OpenBindings(ctx, d.db)
	if err != nil {
		return err
	}
	d.api.Vault = vault.New(vault.Options{
		Home: d.Home, Which: func() config.SecretStore { return d.api.Sandbox.Settings().Secrets }, Declared: d.permits().Declared, Bindings: bindings, Audit: d.api.Audit, Log: d.api.Log,
	})
	d.closes(d.api.Vault.Close)
	d.api.Prompts = prompts.New(prompts.Options{Keep: d.api.Vault.Set, Record: d.api.Events})
	d.closes(d.api.Prompts.Close)
	d.api.Agents, err = agents.Open(ctx, agents.Options{
		Home: d.Home, DB: d.db, Machines: d.machines, Folders: d.folders, Tokens: d.tokens, Secrets: d.api.Vault, Record: watched{d}, Log: d.api.Log,
		Trust: d.api.Vault.Trust,
		Made:  func(ctx context.Context, l *machine.Lease, a agents.Agent) { d.api.Mounts.Attach(ctx, l, a) },
		Lost:  func(a config.AgentID) bool { return d.api.Mounts.Lost(a) },
		PrepareTrust: func(ctx context.Context, a agents.Agent) {
			d.api.Vault.Prepare(ctx, slices.ContainsFunc(policy.Of(d.api.Sandbox.Settings(), a.Settings).Rules, config.NetworkRule.HTTP))
		},
	})
	if err != nil {
		return err
	}
	d.closes(d.api.Agents.Close)
	if err := d.openHistory(ctx); err != nil {
		return err
	}
	if err := d.makeMounts(ctx); err != nil {
		return err
	}
	d.makeEgress()
	d.api.Sessions = sessions.New(sessions.Options{DB: d.db, Agents: d.api.Agents, Record: d.api.Events, Log: d.api.Log})
	d.closes(d.api.Sessions.Close)
	d.api.Topics, d.api.Lines, d.config = services.NewTopics(d.db, d.api.Vault.Clean), services.NewLogs(d.api.Agents.Has, d.api.Vault.Clean), services.NewPluginConfig(d.db)
	if d.api.Artifacts, err = artifacts.Open(ctx, artifacts.Options{Home: d.Home, DB: d.db, Record: d.api.Events}); err != nil {
		return err
	}
	d.after(d.api.Artifacts.Close)
	if d.api.Snapshots, err = snapshots.Open(snapshots.Options{Home: d.Home, Agents: d.api.Agents, Machine: d.api.Sandbox, Record: d.api.Events}); err != nil {
		return err
	}
	d.tools = toolhost.Options{
		Agents: d.api.Agents, Sessions: d.api.Sessions, Vault: d.api.Vault, Prompts: d.api.Prompts, Artifacts: d.api.Artifacts, Mounts: d.api.Mounts,
		Checkpoints: d.api.Checkpoints,
		Installer:   toolhost.NewInstaller(d.api.Agents), Log: d.api.Log,
	}
	d.api.Tools = toolhost.New(d.tools)
	return nil
}

// openHistory opens the checkpoints of agents' homes.
func (d *daemon) openHistory(ctx context.Context) error {
	settings := func() config.History { return d.api.Sandbox.Settings().History }
	kept, err := checkpoints.OpenStore(d.Home, settings())
	if err != nil {
		return err
	}
	d.api.Checkpoints, err = checkpoints.Open(ctx, checkpoints.Options{DB: d.db, History: kept, Agents: d.api.Agents, Settings: settings, Log: d.api.Log})
	if err != nil {
		return err
	}
	d.closes(d.api.Checkpoints.Close)
	return nil
}

// makeMounts makes the mounts of agents. No guest runs yet that could have some.
func (d *daemon) makeMounts(ctx context.Context) (err error) {
	person, _ := os.UserHomeDir() // without one, nothing is mounted
	d.api.Mounts, err = mounts.Open(ctx, mounts.Options{
		Rules: mounts.Rules{Home: d.Home, Person: person, Never: func() []config.HostFolder { return d.api.Sandbox.Settings().Mounts.Never }},
		DB:    d.db, Agents: d.api.Agents, Prompts: d.api.Prompts, History: d.api.Checkpoints.History, Record: d.api.Events, Log: d.api.Log,
	})
	if err == nil {
		d.closes(d.api.Mounts.Close)
		d.api.Checkpoints.UseMounts(d.api.Mounts.Roots)
	}
	return err
}

// gateway configures the network of guests. It is used when a guest boots, after makeEgress.
func (d *daemon) gateway() network.Options {
	return network.Options{
		Policy: func(s network.Subject) policy.Policy { return d.api.Policies.Of(s) },
		Ask:    func(ctx context.Context, s network.Subject, t policy.Target) bool { return d.asker.Ask(ctx, s, t) },
		Limits: func(a config.AgentID) network.Limits { return d.api.Policies.Limits(a) },
		Record: func(f network.Flow) { d.api.Flows.Record(f) },
		Opens: func(s network.Subject, host string, o *intercept.Options) bool {
			name := config.AgentName("")
			if o != nil {
				name, _ = d.nameOf(s.Agent)
			}
			return d.api.Vault.Opens(s, name, host, o)
		},
		AgentName: func(id config.AgentID) string {
			name, _ := d.nameOf(id)
			return string(name)
		},
		Dialer: d.Dialer,
		Log:    d.api.Log,
	}
}

// makeEgress makes what the network's gateway asks.
func (d *daemon) makeEgress() {
	d.api.Policies = egress.NewPolicies(egress.PolicyOptions{Agents: d.api.Agents, Home: d.api.Sandbox.Settings, Hosts: d.permits().Hosts, Local: network.LocalNetworks})
	d.asker = egress.NewAsker(egress.AskOptions{Policies: d.api.Policies, Prompts: d.api.Prompts})
	d.closes(d.asker.Close)
	d.api.Flows = egress.NewFlows(egress.FlowOptions{Name: d.nameOf, Events: d.api.Events, Audit: d.api.Audit, Log: d.api.Log})
	d.closes(d.api.Flows.Close)
	life, end := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { d.api.Policies.Watch(life, d.recheck) })
	d.closes(func() { end(); watching.Wait() })
	d.api.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}
}

// recheck ends the flows that an agent's policy no longer allows.
func (d *daemon) recheck(agent config.AgentID) {
	guest, ok := d.machines.For(agent).Peek()
	if !ok {
		return
	}
	defer guest.Release()
	if gateway := guest.Gateway(); gateway != nil {
		gateway.Recheck(agent)
	}
}

// nameOf returns the name of an agent, if there is one.
func (d *daemon) nameOf(id config.AgentID) (config.AgentName, bool) {
	agent, err := d.api.Agents.Get(string(id))
	return agent.Name, err == nil
}

// makeServices makes the bridge's services. No guest runs yet that could call it.
func (d *daemon) makeServices(context.Context) error {
	d.api.Memory, d.api.Tasks = services.NewMemory(d.db, d.api.Vault.Clean), services.NewTasks(d.db, d.api.Vault.Clean, d.api.Events.Note)
	models := inference.New(inference.Options{
		Settings: func() config.Inference { return d.api.Sandbox.Settings().Inference }, Key: d.api.Vault.InferenceKey, MayInfer: d.permits().MayInfer,
	})
	d.closes(models.Close)
	d.bridge.Services = bridge.Services{
		Secrets: d.api.Vault, Config: d.config, Inference: models, Tasks: d.api.Tasks, Memory: d.api.Memory, Events: d.permits().Emitting(d.api.Topics), Log: d.api.Lines,
		Scripts: toolhost.Scripts(d.api.Tools), Plugins: d.plugins.Registrar,
	}
	return nil
}

// makePlugins opens the library and the agents' plugins.
func (d *daemon) makePlugins(context.Context) (err error) {
	if d.api.Library, err = library.Open(library.Options{Home: d.Home, Now: time.Now}); err != nil {
		return err
	}
	d.plugins = pluginhost.Open(pluginhost.Options{
		Home: d.Home, Tools: d.tools, Registry: d.api.Tools, Library: d.api.Library, Topics: d.api.Topics, Lines: d.api.Lines, Config: d.config,
		Record: d.api.Events, Log: d.api.Log,
	})
	d.closes(d.plugins.Close)
	d.api.Plugins, d.api.Registrar, d.api.Sources = d.plugins.Installer, d.plugins.Registrar, source.NewClient(source.Options{})
	return nil
}

// permits returns the permissions of plugins.
func (d *daemon) permits() life.Permits {
	return life.Permits{Recipe: func(agent config.AgentID, plugin config.PluginID) (plugins.Recipe, bool) {
		r, ok := d.plugins.Installer.Find(agent, plugin)
		return r.Plugin, ok
	}}
}

// watched passes events to the journal and to the plugins.
type watched struct{ *daemon }

// Note implements events.Recorder.
func (w watched) Note(e events.Event) {
	w.api.Events.Note(e)
	if w.plugins != nil { // they are made after the agents
		w.plugins.Note(e)
	}
}

// end ends prompts and terminals, and then the guest.
func (d *daemon) end(ctx context.Context) error {
	d.api.Prompts.Close()
	d.api.Sessions.Close() // it reads transcripts from the guest
	return d.stop()
}

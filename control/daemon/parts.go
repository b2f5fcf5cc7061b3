package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/inference"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/plugins/source"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/homelock"

	"osaurus-sandbox/supervisor/machine"

	"osaurus-sandbox/supervisor/pluginhost"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/toolbench"

	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/vm"
)

// endLimit is how long the guest has to end when the daemon does: what it takes
// to stop commands, write its disks and power off, on a busy host.
const endLimit = 45 * time.Second

// daemon is what Run puts together, in the order of its fields.
type daemon struct {
	Options
	back []func() error // gives back what there is, the last first

	lock *homelock.Lock
	log  *slog.Logger

	db      *store.DB
	journal *events.Journal
	diary   *diary
	audit   *audit.Log

	folders  *vm.Subtrees
	tokens   *bridge.Tokens
	bridge   *bridge.Server
	sandbox  *machine.Machine // the shared one of machines
	machines *machine.Fleet
	ending   sync.Once
	ended    error // of ending

	vault     *vault.Vault
	prompts   *prompts.Broker
	agents    *agents.Agents
	terminals *sessions.Terminals

	memory    *services.Memory
	tasks     *services.Tasks
	topics    *services.Topics
	lines     *services.Logs
	artifacts *artifacts.Artifacts
	config    *services.PluginConfig

	bench   toolbench.Options
	tools   *tools.Registry
	library *library.Library
	plugins *pluginhost.Bench
}

// after has something be given back at the end, before all that is there now.
func (d *daemon) after(give func() error) { d.back = append(d.back, give) }

// closes is after for what cannot fail.
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

// takeHome has no other daemon serve the home, and opens the log in it.
func (d *daemon) takeHome(ctx context.Context) (err error) {
	if d.lock, err = homelock.Take(ctx, d.Home); err != nil {
		return err
	}
	d.after(d.lock.Release)
	file, err := openLog(d.Home)
	if err != nil {
		return err
	}
	d.after(file.Close)
	var to io.Writer = file
	if d.Log != nil {
		to = io.MultiWriter(file, d.Log)
	}
	d.log = slog.New(slog.NewTextHandler(to, nil))
	return nil
}

// openRecords opens the database, and what is kept in it of what happens.
func (d *daemon) openRecords(ctx context.Context) (err error) {
	if d.db, err = store.Open(ctx, d.Home.Database()); err != nil {
		return err
	}
	d.after(d.db.Close)
	if d.journal, err = events.Open(ctx, d.db); err != nil {
		return err
	}
	d.after(func() error { return d.journal.Close(context.WithoutCancel(ctx)) })
	d.diary = newDiary(d.journal, d.log)
	d.closes(d.diary.close)
	d.audit = audit.New(d.db)
	return nil
}

// makeSandbox makes the sandbox, whose guest does not run yet, and the bridge that
// answers it.
func (d *daemon) makeSandbox(ctx context.Context) (err error) {
	d.folders, d.tokens = new(vm.Subtrees), bridge.NewTokens()
	d.bridge = bridge.NewServer(bridge.Options{
		Tokens: d.tokens, Limits: func() config.BridgeLimits { return d.sandbox.Settings().Bridge }, Log: d.log,
		Audit: programs{d.audit, d.log, func(agent config.AgentID) *redact.Scrubber { return d.vault.Redacted(agent) }},
	})
	d.after(d.bridge.Close)
	d.sandbox, err = machine.New(ctx, machine.Options{
		Home: d.Home, Driver: d.Driver, Lock: d.lock, Record: d.diary, Log: d.log, Backend: d.Backend, Folders: d.folders, Bridge: d.bridge,
	})
	if err != nil {
		return err
	}
	d.machines = machine.NewFleet(d.sandbox)
	d.after(func() error { return d.stop(ctx) })
	return nil
}

// makeResidents makes what agents have here: secrets, questions to people, rooms,
// shells, artifacts.
func (d *daemon) makeResidents(ctx context.Context) (err error) {
	d.vault = vault.New(vault.Options{
		Home: d.Home, Which: func() config.SecretStore { return d.sandbox.Settings().Secrets }, Plugins: d.permits(), Audit: d.audit, Log: d.log,
	})
	d.closes(d.vault.Close)
	if d.prompts, err = prompts.Open(ctx, prompts.Options{DB: d.db, Keep: d.vault.Set, Record: d.diary, Log: d.log}); err != nil {
		return err
	}
	d.closes(d.prompts.Close)
	d.agents, err = agents.Open(ctx, agents.Options{
		Home: d.Home, DB: d.db, Machines: d.machines, Folders: d.folders, Tokens: d.tokens, Secrets: d.vault, Record: watched{d}, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.closes(d.agents.Close)
	d.terminals = sessions.New(sessions.Options{DB: d.db, Machines: d.machines, Agents: d.agents, Record: d.diary, Log: d.log})
	d.closes(d.terminals.Close)
	if err := d.terminals.Settle(d.journal.List(ctx, 0)); err != nil {
		d.log.Warn("which jobs ended with the daemon before is not known", "error", err)
	}
	d.topics, d.lines, d.config = services.NewTopics(d.db), services.NewLogs(d.agents.Has), services.NewPluginConfig(d.db)
	if d.artifacts, err = artifacts.Open(ctx, artifacts.Options{Home: d.Home, DB: d.db, Record: d.diary}); err != nil {
		return err
	}
	d.after(d.artifacts.Close)
	d.bench = toolbench.Options{
		Agents: d.agents, Terminals: d.terminals, Vault: d.vault, Prompts: d.prompts, Artifacts: d.artifacts,
		Installer: toolbench.NewInstaller(d.agents), Log: d.log,
	}
	d.tools = toolbench.New(d.bench)
	return nil
}

// makeServices makes what programs in the guest may ask for. Nobody has asked the
// bridge yet.
func (d *daemon) makeServices(context.Context) error {
	d.memory, d.tasks = services.NewMemory(d.db), services.NewTasks(d.db, d.diary.Note)
	models := inference.New(inference.Options{
		Settings: func() config.Inference { return d.sandbox.Settings().Inference }, Key: d.vault.InferenceKey, Plugins: d.permits(),
	})
	d.closes(models.Close)
	d.bridge.Services = d.vault.Cleaned(bridge.Services{
		Secrets: d.vault, Config: d.config, Inference: models, Tasks: d.tasks, Memory: d.memory, Events: d.permits().Emitting(d.topics), Log: d.lines,
		Scripts: toolbench.Scripts(d.tools), Plugins: d.plugins.Programs(),
	})
	return nil
}

// makePlugins has agents' plugins be there, with their tools.
func (d *daemon) makePlugins(context.Context) (err error) {
	if d.library, err = library.Open(library.Options{Home: d.Home, Now: time.Now}); err != nil {
		return err
	}
	d.plugins, err = pluginhost.Open(pluginhost.Options{
		Home: d.Home, Tools: d.bench, Registry: d.tools, Library: d.library, Topics: d.topics, Lines: d.lines, Config: d.config,
		Record: d.diary, Program: d.Program, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.closes(d.plugins.Close)
	return nil
}

// permits are what plugins may, once they are there.
func (d *daemon) permits() life.Permits {
	return life.Permits{Recipe: func(agent config.AgentID, plugin config.PluginID) (plugins.Recipe, bool) {
		r, ok := d.plugins.Installer.Find(agent, plugin)
		return r.Plugin, ok
	}}
}

// watched is the diary, with who looks after plugins beside it.
type watched struct{ *daemon }

// Note implements events.Recorder.
func (w watched) Note(e events.Event) {
	w.diary.Note(e)
	if w.plugins != nil { // they are made after agents are
		w.plugins.Note(e)
	}
}

// backing is what the API stands for.
func (d *daemon) backing() control.Backing {
	return control.Backing{
		Sandbox: d.sandbox, Agents: d.agents, Terminals: d.terminals, Vault: d.vault, Prompts: d.prompts,
		Tools: d.tools, Plugins: d.plugins.Installer, Registrar: d.plugins.Registrar, Library: d.library, Sources: source.NewClient(source.Options{}), Artifacts: d.artifacts,
		Memory: d.memory, Tasks: d.tasks, Topics: d.topics, Lines: d.lines,
		Events: d.journal, Audit: d.audit, Log: d.log, Program: d.Program, Close: d.end,
	}
}

// end ends what people and programs wait for, and then the guest.
func (d *daemon) end(ctx context.Context) error {
	d.prompts.Close()
	d.terminals.Close() // it asks the guest for what is to be kept
	return d.stop(ctx)
}

// stop ends the guest, and returns when it has, whoever else has begun it.
func (d *daemon) stop(ctx context.Context) error {
	d.ending.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		d.ended = d.sandbox.Close(ctx)
	})
	return d.ended
}

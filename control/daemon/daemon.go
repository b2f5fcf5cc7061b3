// Package daemon runs the sandbox of a home and its API until it is told to end.
package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/inference"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/stores"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/loglines"
	"osaurus-sandbox/supervisor/memory"
	"osaurus-sandbox/supervisor/owner"
	"osaurus-sandbox/supervisor/pluginconfig"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/tasks"
	"osaurus-sandbox/supervisor/terminal"
	"osaurus-sandbox/supervisor/toolbench"
	"osaurus-sandbox/supervisor/topics"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/vm"
)

// endLimit is how long the guest has to end when the daemon does: what it takes
// to stop commands, write its disks and power off, on a busy host.
const endLimit = 45 * time.Second

// Options are what a daemon is made of.
type Options struct {
	Home   config.Home
	Driver vm.Driver
	// Program is this program's release and revision.
	Program string
	// TCP, if not nil, listens there too.
	TCP *control.TCP
	// Log gets what goes to the daemon's log as well; it may be nil.
	Log io.Writer
	// Backend, if not nil, stands in for the real one: see supervisor.Options.
	Backend supervisor.Backend
	// Ready is called when the API can be used; it may be nil.
	Ready func(*control.Server)
}

// Run takes the home and serves it until the context ends or a client says
// quit. The guest is stopped and everything given back before it returns.
func Run(ctx context.Context, o Options) (err error) {
	lock, err := owner.Take(ctx, o.Home)
	if err != nil {
		return err
	}
	after := func(f func() error) { err = errors.Join(err, f()) }
	defer after(lock.Release)

	file, err := openLog(o.Home)
	if err != nil {
		return err
	}
	defer after(file.Close)
	var to io.Writer = file
	if o.Log != nil {
		to = io.MultiWriter(file, o.Log)
	}
	log := slog.New(slog.NewTextHandler(to, nil))

	db, err := store.Open(ctx, o.Home.Database())
	if err != nil {
		return err
	}
	defer after(db.Close)
	journal, err := events.Open(ctx, db)
	if err != nil {
		return err
	}
	defer after(func() error { return journal.Close(context.WithoutCancel(ctx)) })
	diary := newDiary(journal, log)
	defer diary.close()

	record := audit.New(db)
	folders, tokens := new(vm.Subtrees), bridge.NewTokens()
	var sandbox *supervisor.Supervisor
	answers := bridge.NewServer(bridge.Options{
		Tokens: tokens, Limits: func() config.BridgeLimits { return sandbox.Settings().Bridge }, Audit: programs{record, log}, Log: log,
	})
	defer after(answers.Close)
	sandbox, err = supervisor.New(ctx, supervisor.Options{
		Home: o.Home, Driver: o.Driver, Lock: lock, Record: diary, Log: log, Backend: o.Backend, Folders: folders, Bridge: answers,
	})
	if err != nil {
		return err
	}
	var once sync.Once
	var ended error
	end := func(ctx context.Context) error { // whoever comes second waits for the first
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
			defer cancel()
			ended = sandbox.Close(ctx)
		})
		return ended
	}
	defer after(func() error { return end(ctx) })
	safe := vault.New(vault.Options{Home: o.Home, Which: func() config.SecretStore { return sandbox.Settings().Secrets }, Audit: record, Log: log})
	defer safe.Close()
	broker, err := prompts.Open(ctx, prompts.Options{DB: db, Keep: safe.Set, Record: diary, Log: log})
	if err != nil {
		return err
	}
	defer broker.Close()
	residents, err := agents.Open(ctx, agents.Options{
		Home: o.Home, DB: db, Sandbox: sandbox, Folders: folders, Tokens: tokens, Secrets: safe, Record: diary, Log: log,
	})
	if err != nil {
		return err
	}
	defer residents.Close()
	terminals := terminal.New(terminal.Options{DB: db, Sandbox: sandbox, Agents: residents, Record: diary, Log: log})
	defer terminals.Close()
	finish := func(ctx context.Context) error {
		broker.Close()
		terminals.Close() // it asks the guest for what is to be kept
		return end(ctx)
	}

	facts, queue, told, lines := memory.New(db), tasks.New(db, diary.Note), topics.New(db), loglines.New(residents.Has)
	models := inference.New(inference.Options{
		Settings: func() config.Inference { return sandbox.Settings().Inference },
		Key: func(ctx context.Context) (secrets.Value, error) {
			return stores.Open(sandbox.Settings().Secrets, o.Home, nil).Get(ctx, secrets.Inference())
		},
	})
	defer models.Close()
	answers.Services = safe.Cleaned(bridge.Services{
		Secrets: safe, Config: pluginconfig.New(db), Inference: models, Tasks: queue, Memory: facts, Events: told, Log: lines,
	})

	bench := toolbench.New(toolbench.Options{Agents: residents, Terminals: terminals, Vault: safe, Prompts: broker, Log: log})
	server, err := control.NewServer(control.Backing{
		Sandbox: sandbox, Agents: residents, Terminals: terminals, Vault: safe, Prompts: broker, Tools: bench,
		Memory: facts, Tasks: queue, Topics: told, Lines: lines, Events: journal, Audit: record, Log: log, Program: o.Program, Close: finish,
	})
	if err != nil {
		return err
	}
	if o.TCP != nil {
		if _, err := server.ListenTCP(*o.TCP); err != nil {
			return errors.Join(err, server.Unlink(), server.Close())
		}
	}
	log.Info("the daemon serves", "home", o.Home, "program", o.Program)
	sandbox.AutoStart()
	if o.Ready != nil {
		o.Ready(server)
	}
	select {
	case <-ctx.Done():
		log.Info("the daemon ends", "cause", context.Cause(ctx))
	case <-server.Quitting():
		log.Info("the daemon ends", "cause", "a client asked for it")
	}
	// Nobody new finds it. Who waits is told by the sandbox that it ends.
	return errors.Join(server.Unlink(), finish(ctx), server.Close())
}

// Package daemon runs the sandbox of a home and its API.
package daemon

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/vm"
)

// Options configure a daemon.
type Options struct {
	Home   config.Home
	Driver vm.Driver
	// Program is this program's release and revision.
	Program string
	// TCP, if not nil, listens there too.
	TCP *control.TCP
	// AtRest starts no guest until a client asks for one, even with autoStart.
	AtRest bool
	// Log, if not nil, gets a copy of the daemon's log.
	Log io.Writer
	// Backend, if not nil, replaces the real one: see machine.Options.
	Backend machine.Backend
	// Dialer, if not nil, replaces this computer's network for guests.
	Dialer network.Dialer
	// Ready, if not nil, is called when the API can be used.
	Ready func(*control.Server)
}

// homeCheck is how often the daemon checks that its home still exists.
const homeCheck = 10 * time.Second

// Run locks the home and serves it until the context ends, a client calls Quit or the home
// is deleted. It stops the guest before it returns.
func Run(ctx context.Context, o Options) (err error) {
	d := &daemon{Options: o}
	d.api.Program, d.api.Close = o.Program, d.end
	defer func() { err = errors.Join(err, d.giveBack()) }()
	for _, begin := range []func(context.Context) error{d.takeHome, d.openRecords, d.finishRestore, d.makeSandbox, d.makeResidents, d.makePlugins, d.makeServices} {
		if err := begin(ctx); err != nil {
			return err
		}
	}
	return d.serve(ctx)
}

// serve serves the API until the daemon has to end, and then ends the sandbox.
func (d *daemon) serve(ctx context.Context) error {
	server, err := control.NewServer(d.api)
	if err != nil {
		return err
	}
	if d.TCP != nil {
		if _, err := server.ListenTCP(*d.TCP); err != nil {
			return errors.Join(err, server.Unlink(), server.Close())
		}
	}
	d.api.Log.Info("the daemon serves", "home", d.Home, "program", d.Program)
	if !d.AtRest {
		d.api.Sandbox.AutoStart()
	}
	if d.Ready != nil {
		d.Ready(server)
	}
	var showing sync.WaitGroup
	shown, hide := context.WithCancel(ctx)
	showing.Go(func() { d.serveTools(shown) })
	d.api.Log.Info("the daemon ends", "cause", d.wait(ctx, server))
	hide()
	showing.Wait()
	// No new clients come, and calls end with the sandbox.
	err = server.Unlink()
	_ = d.end(ctx) // giveBack returns the same error
	return errors.Join(err, server.Close())
}

// wait returns when the daemon has to end, with the cause. A daemon whose home was
// deleted ends, since nobody can find it any more.
func (d *daemon) wait(ctx context.Context, server *control.Server) error {
	check := time.NewTicker(homeCheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-server.Quitting():
			return errors.New("a client asked for it")
		case <-check.C:
			if d.lock.Lost() {
				return errors.New("its home is gone")
			}
		}
	}
}

package daemon

import (
	"context"
	"reflect"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/internal/fault"
)

// listenAgain is how long after an address was taken it is tried again: often enough
// for a person who has just freed it, and seldom enough to cost nothing.
const listenAgain = 10 * time.Second

// showTools has agents' tools be shown over HTTP where the settings say, whenever they
// say something else, until the context ends. An address that cannot be had is tried again.
func (d *daemon) showTools(ctx context.Context) {
	var at config.MCP
	var l *mcp.Listener
	var trouble string // what the log has of it
	shut := func() {
		if l == nil {
			return
		}
		if err := l.Close(); err != nil {
			d.api.Log.Warn("the listener for MCP did not end well", "address", at.Listen, "error", err)
		}
		l = nil
	}
	defer shut()
	for revision := uint64(0); ; {
		if now := d.api.Sandbox.Settings().MCP; !reflect.DeepEqual(now, at) {
			shut()
			at, trouble = now, ""
		}
		wait, cancel := context.WithCancel(ctx)
		if l == nil && at.Listen != "" {
			var err error
			if l, err = d.listen(at); err != nil {
				if err.Error() != trouble {
					trouble = err.Error()
					d.api.Log.Error("agents' tools are not shown over HTTP", "address", at.Listen, "error", err, "advice", fault.AdviceOf(err))
				}
				time.AfterFunc(listenAgain, cancel)
			}
		}
		status, err := d.api.Sandbox.Next(wait, revision)
		again := wait.Err() != nil
		cancel()
		if ctx.Err() != nil || err != nil && !again {
			return
		}
		revision = status.Revision
	}
}

// listen opens the listener.
func (d *daemon) listen(at config.MCP) (*mcp.Listener, error) {
	connect := func(ctx context.Context, name string) (*control.Client, error) {
		return control.Connect(ctx, d.Home, name)
	}
	l, err := mcp.Listen(d.Home, at, mcp.Options{
		Sandbox: mcp.API{Connect: connect, Find: connect}, Program: "osaurus-sandbox", Version: d.Program, Log: d.api.Log,
	})
	if err == nil {
		d.api.Log.Info("agents' tools are shown over HTTP", "address", at.Listen)
	}
	return l, err
}

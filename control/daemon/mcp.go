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

// listenAgain is how often an address that is in use is tried again.
const listenAgain = 10 * time.Second

// serveTools serves MCP over HTTP at the address in the settings, and follows changes of
// these, until the context ends. It retries an address that is in use.
func (d *daemon) serveTools(ctx context.Context) {
	var at config.MCP
	var l *mcp.Listener
	var trouble string // already in the log
	shut := func() {
		if l == nil {
			return
		}
		if err := l.Close(); err != nil {
			d.api.Log.Warn("the MCP listener did not shut down cleanly", "address", at.Listen, "error", err)
		}
		l = nil
	}
	defer shut()
	for revision := uint64(0); ; {
		if now := d.api.Sandbox.Settings().MCP; !reflect.DeepEqual(now, at) {
			shut()
			at, trouble = now, ""
		}
		if l == nil && at.Listen != "" {
			var err error
			if l, err = d.listen(at); err != nil && err.Error() != trouble {
				trouble = err.Error()
				d.api.Log.Error("agents' tools are not served over HTTP", "address", at.Listen, "error", err, "advice", fault.AdviceOf(err))
			}
		}
		wait, cancel := context.WithTimeout(ctx, listenAgain)
		status, err := d.api.Sandbox.Next(wait, revision)
		again := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil, err != nil && !again:
			return
		case err == nil:
			revision = status.Revision
		}
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
		d.api.Log.Info("agents' tools are served over HTTP", "address", at.Listen)
	}
	return l, err
}

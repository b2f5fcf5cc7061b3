package daemon

import (
	"context"
	"reflect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/fault"
)

// showTools has agents' tools be shown over HTTP where the settings say, whenever they
// say something else, until the context ends.
func (d *daemon) showTools(ctx context.Context) {
	var at config.MCP
	var l *mcp.Listener
	shut := func() {
		if l == nil {
			return
		}
		if err := l.Close(); err != nil {
			d.log.Warn("the listener for MCP did not end well", "address", at.Listen, "error", err)
		}
		l = nil
	}
	defer shut()
	for revision := uint64(0); ; {
		if now := d.sandbox.Settings().MCP; !reflect.DeepEqual(now, at) {
			shut()
			at = now
			l = d.listen(at)
		}
		status, err := d.sandbox.Next(ctx, revision)
		if err != nil {
			return
		}
		revision = status.Revision
	}
}

// listen opens the listener, if the settings want one.
func (d *daemon) listen(at config.MCP) *mcp.Listener {
	if at.Listen == "" {
		return nil
	}
	connect := func(ctx context.Context, name string) (*control.Client, error) {
		return control.Connect(ctx, d.Home, name)
	}
	l, err := mcp.Listen(d.Home, at, mcp.Options{
		Sandbox: mcp.API{Connect: connect, Find: connect}, Program: "osaurus-sandbox", Version: d.Program, Log: d.log,
	})
	if err != nil {
		d.log.Error("agents' tools are not shown over HTTP", "address", at.Listen, "error", err, "advice", fault.AdviceOf(err))
		return nil
	}
	d.log.Info("agents' tools are shown over HTTP", "address", at.Listen)
	return l
}

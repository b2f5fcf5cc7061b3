// Package remote is the execution SPI over the control API: commands run in an agent's room, wherever the daemon is.
package remote

import (
	"context"

	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
)

// New is a sandbox in the room of an agent, by its name or id. The client must
// outlive it. The daemon's audit has each command with its tenant.
func New(client *control.Client, agent string) engine.Sandbox {
	return guest.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		return client.RunFor(ctx, tenant, agent, cmd)
	})
}

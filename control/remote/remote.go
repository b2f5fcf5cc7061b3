// Package remote is the execution SPI over the control API: commands run in an agent's room, wherever the daemon is.
package remote

import (
	"context"

	"osaurus-sandbox/control"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/sandbox"
)

// New is a sandbox in the room of an agent, by its name or id. The client must
// outlive it. The daemon's audit has each command with its tenant.
func New(client *control.Client, agent string) sandbox.Sandbox {
	return guest.NewSandbox(func(ctx context.Context, cmd guest.Command, tenant sandbox.Tenant) (guest.Running, error) {
		return client.RunFor(ctx, tenant, agent, cmd)
	})
}

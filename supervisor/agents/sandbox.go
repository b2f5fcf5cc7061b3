package agents

import (
	"context"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
)

// Room is the execution SPI in an agent's room. It keeps no record of
// tenants: see sandbox.Recorded.
func (a *Agents) Room(ref string) engine.Sandbox {
	return guest.NewSandbox(func(ctx context.Context, cmd engine.Command, _ engine.Tenant) (engine.Process, error) {
		return a.Exec(ctx, ref, cmd)
	})
}

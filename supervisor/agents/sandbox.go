package agents

import (
	"context"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/sandbox"
)

// Room is the execution SPI in an agent's room. It keeps no record of
// tenants: see sandbox.Recorded.
func (a *Agents) Room(ref string) sandbox.Sandbox {
	return guest.NewSandbox(func(ctx context.Context, cmd guest.Command, _ sandbox.Tenant) (guest.Running, error) {
		return a.Exec(ctx, ref, cmd)
	})
}

package control

import (
	"context"

	"osaurus-sandbox/engine"
)

// Sandbox returns the execution SPI in an agent's room. The audit has each
// command with its tenant.
func (c *Client) Sandbox(agent string) engine.Sandbox {
	return engine.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		return c.Run(ctx, RunAs{Agent: agent, Tenant: tenant}, cmd)
	})
}

package control

import (
	"context"
	"strings"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/enginetest"
)

// Sandbox returns the execution SPI in an agent's room. The audit has each
// command with its tenant.
func (c *Client) Sandbox(agent string) engine.Sandbox {
	return engine.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		return c.Run(ctx, RunAs{Agent: agent, Tenant: tenant}, cmd)
	})
}

// recentAudit is how many of the newest audit entries are searched for a tenant.
const recentAudit = 20

// ConformanceSuite returns what the conformance kit needs to test an agent's
// room: it works in the agent's home and reads the audit.
func (c *Client) ConformanceSuite(ctx context.Context, agent string) (enginetest.Suite, error) {
	shown, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: agent})
	if err != nil {
		return enginetest.Suite{}, err
	}
	name := shown.Agent.Name
	return enginetest.Suite{
		Name: "room of " + name, Sandbox: c.Sandbox(name), Root: shown.Agent.Home,
		Audited: func(ctx context.Context, tenant engine.Tenant) (bool, error) {
			for r, err := range Messages(c.ListAudit(ctx, &controlpb.ListAuditRequest{Agent: name, Limit: recentAudit})) {
				if err != nil || strings.Contains(r.Detail, string(tenant)) {
					return err == nil, err
				}
			}
			return false, nil
		},
	}, nil
}

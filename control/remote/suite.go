package remote

import (
	"context"
	"strings"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/enginetest"
)

// recent is how many records of the audit are looked through for a tenant: those
// of the scenario that asks, and a few that others make meanwhile.
const recent = 20

// Suite is what the conformance kit needs of an agent's room: it works in the
// agent's home, and looks into the daemon's audit.
func Suite(ctx context.Context, client *control.Client, agent string) (enginetest.Suite, error) {
	shown, err := client.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: agent})
	if err != nil {
		return enginetest.Suite{}, err
	}
	name := shown.Agent.Name
	return enginetest.Suite{
		Name: "room of " + name, Sandbox: New(client, name), Root: shown.Agent.Home,
		Audited: func(ctx context.Context, tenant engine.Tenant) (bool, error) {
			for r, err := range control.Messages(client.ListAudit(ctx, &controlpb.ListAuditRequest{Agent: name, Limit: recent})) {
				if err != nil || strings.Contains(r.Detail, string(tenant)) {
					return err == nil, err
				}
			}
			return false, nil
		},
	}, nil
}

package daemon

import (
	"context"
	"log/slog"
	"os"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/audit"
)

// programs audits the calls of programs in the guest as done by the daemon's user, and
// redacts their agents' secrets.
type programs struct {
	audit  *audit.Log
	log    *slog.Logger
	secret func(config.AgentID) *redact.Scrubber
}

// Record implements bridge.Audit. The log has what cannot be recorded.
func (p programs) Record(ctx context.Context, who bridge.Caller, action bridge.Action, subject string, err error) {
	clean := p.secret(who.Agent)
	e := audit.Entry{UID: os.Getuid(), Agent: who.Name, Client: "bridge", Action: string(action), Subject: clean.Text(subject)}.Of(err)
	if who.Plugin != "" {
		e.Client += " for plugin " + string(who.Plugin)
	}
	e.Detail = clean.Text(e.Detail)
	if _, err := p.audit.Record(ctx, e); err != nil {
		p.log.Error("the audit lacks an entry", "agent", who.Name, "action", action, "outcome", e.Outcome, "error", err)
	}
}

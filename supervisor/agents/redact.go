package agents

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
)

// Secrets knows what must not appear in an agent's output.
type Secrets interface {
	// Redact waits for the agent's secrets, the first time and for a limited time.
	Redact(ctx context.Context, agent config.AgentID) *redact.Live
	// Redacted redacts the secrets known so far.
	Redacted(agent config.AgentID) *redact.Scrubber
}

// Redact returns what removes an agent's secrets from the output of its
// programs. What an attached person sees does not pass it, nor do forwarded
// connections and copied files.
func (a *Agents) Redact(ctx context.Context, agent Agent) *redact.Live {
	return a.Secrets.Redact(ctx, agent.ID)
}

// Redacted returns what removes an agent's secrets, as far as they are known,
// from what is reported about it. It does not wait.
func (a *Agents) Redacted(agent Agent) *redact.Scrubber {
	return a.Secrets.Redacted(agent.ID)
}

// redact redirects a command's output through redaction.
func (a *Agents) redact(ctx context.Context, agent Agent, cmd *engine.Command) *redact.Output {
	output := redact.NewOutput(a.Redact(ctx, agent))
	if cmd.Stdout != nil {
		cmd.Stdout = output.Writer(cmd.Stdout)
	}
	if cmd.Stderr != nil {
		cmd.Stderr = output.Writer(cmd.Stderr)
	}
	return output
}

package agents

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
)

// Secrets know what must not be read in an agent's output.
type Secrets interface {
	// Redact may wait for a moment until they are known.
	Redact(ctx context.Context, agent config.AgentID) *redact.Live
	// Redacted is what takes out those that are known.
	Redacted(agent config.AgentID) *redact.Scrubber
}

// Redact is what takes an agent's secrets out of what its programs say. All that
// leaves a room goes through it, but for what a person sees who is before the
// terminal.
func (a *Agents) Redact(ctx context.Context, agent Agent) *redact.Live {
	if a.Secrets == nil {
		return nil
	}
	return a.Secrets.Redact(ctx, agent.ID)
}

// Redacted is what takes an agent's secrets out of what others say of it, as far as
// they are known. It does not wait.
func (a *Agents) Redacted(agent Agent) *redact.Scrubber {
	if a.Secrets == nil {
		return nil
	}
	return a.Secrets.Redacted(agent.ID)
}

// redact has a command write to where it should without its agent's secrets.
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

// Package services implements what programs in guests call over the bridge: memory, tasks, events, logs and plugin settings.
package services

import (
	"context"

	"osaurus-sandbox/config"
)

const listAgents = "See `osaurus-sandbox agent list`."

// Clean removes an agent's secrets from a text that a program stores or passes on. What plugins
// store for themselves, and what models are told, stays as it is.
type Clean func(ctx context.Context, agent config.AgentID, text string) string

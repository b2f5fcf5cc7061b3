// Package services implements what programs in guests call over the bridge: memory, tasks, events, logs and plugin settings.
package services

const listAgents = "See `osaurus-sandbox agent list`."

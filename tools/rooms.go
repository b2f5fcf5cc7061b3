package tools

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/tools/packages"
)

// Rooms is where an agent's commands run. Whoever stands behind it starts the
// guest and makes the room if need be; that takes of the call's budget.
type Rooms interface {
	// Exec starts a command in the agent's room. The context is that of the whole
	// command.
	Exec(ctx context.Context, a Agent, cmd engine.Command) (engine.Process, error)
	// Shell runs a command in a session's shell.
	Shell(ctx context.Context, a Agent, cmd engine.ShellCommand) (engine.ShellResult, error)
	Jobs
}

// Jobs are an agent's commands in the background. All but StartJob fail with
// NotFound for a job that is not the agent's, or not there any more.
type Jobs interface {
	StartJob(ctx context.Context, a Agent, cmd engine.JobCommand) (engine.Job, error)
	Jobs(ctx context.Context, a Agent) ([]engine.Job, error)
	Job(ctx context.Context, a Agent, id config.JobID) (engine.Job, error)
	WaitJob(ctx context.Context, a Agent, id config.JobID, wait time.Duration) (engine.Job, error)
	KillJob(ctx context.Context, a Agent, id config.JobID, hard bool) (engine.Job, error)
	TailJob(ctx context.Context, a Agent, id config.JobID, bytes uint64) (engine.JobTail, error)
}

// environment is what a command of a tool finds beside its login's: the
// programs that the agent installed come first.
func environment(a Agent) []string {
	venv, modules := packages.Venv(a.Home), packages.Workspace(a.Home)+"/node_modules"
	return []string{
		"PATH=" + modules + "/.bin:" + venv + "/bin:" + guest.SystemPath,
		"VIRTUAL_ENV=" + venv,
		"NODE_PATH=" + modules,
	}
}

package toolbench

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/tools"
)

// rooms is where commands of tools run.
type rooms struct{ Options }

func (r rooms) Exec(ctx context.Context, a tools.Agent, cmd engine.Command) (engine.Process, error) {
	return r.Agents.Exec(ctx, string(a.ID), cmd)
}

func (r rooms) Shell(ctx context.Context, a tools.Agent, cmd engine.ShellCommand) (engine.ShellResult, error) {
	return r.Terminals.Run(ctx, string(a.ID), cmd, by)
}

func (r rooms) StartJob(ctx context.Context, a tools.Agent, cmd engine.JobCommand) (engine.Job, error) {
	j, err := r.Terminals.StartJob(ctx, string(a.ID), cmd, by)
	return j.Job, err
}

func (r rooms) Jobs(ctx context.Context, a tools.Agent) ([]engine.Job, error) {
	list, err := r.Terminals.Jobs(ctx, string(a.ID))
	jobs := make([]engine.Job, len(list))
	for i, j := range list {
		jobs[i] = j.Job
	}
	return jobs, err
}

func (r rooms) Job(ctx context.Context, a tools.Agent, id config.JobID) (engine.Job, error) {
	j, err := r.Terminals.Job(ctx, string(a.ID), id)
	return j.Job, err
}

func (r rooms) WaitJob(ctx context.Context, a tools.Agent, id config.JobID, wait time.Duration) (engine.Job, error) {
	j, err := r.Terminals.WaitJob(ctx, string(a.ID), id, wait)
	return j.Job, err
}

func (r rooms) KillJob(ctx context.Context, a tools.Agent, id config.JobID, hard bool) (engine.Job, error) {
	j, err := r.Terminals.KillJob(ctx, string(a.ID), id, hard)
	return j.Job, err
}

func (r rooms) TailJob(ctx context.Context, a tools.Agent, id config.JobID, bytes uint64) (engine.JobTail, error) {
	var end engine.JobTail
	_, err := r.Terminals.TailJob(ctx, string(a.ID), id, sessions.Tail{FromEnd: bytes}, func(part sessions.Part) error {
		end.Data = append(end.Data, part.Data...)
		return nil
	})
	return end, err
}

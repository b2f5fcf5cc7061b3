package guest

import (
	"bytes"
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// StartJob implements engine.Jobs.
func (c room) StartJob(ctx context.Context, cmd engine.JobCommand) (engine.Job, error) {
	r := &guestpb.StartJobRequest{
		User: string(c.user), Args: protocol.Bytes(cmd.Args), Env: protocol.Bytes(cmd.Env), Dir: []byte(cmd.Dir), Label: cmd.Label,
		Plugin: string(cmd.Plugin), OwnNetwork: cmd.Network != "", Address: cmd.Address.AsSlice(),
	}
	a, err := c.jobs.StartJob(ctx, r)
	return job(a.GetJob()), err
}

// Jobs implements engine.Jobs.
func (c room) Jobs(ctx context.Context) ([]engine.Job, error) {
	a, err := c.jobs.ListJobs(ctx, &guestpb.ListJobsRequest{User: string(c.user)})
	if err != nil {
		return nil, err
	}
	var list []engine.Job
	for _, j := range a.Jobs[:min(len(a.Jobs), protocol.MaxListedJobs)] {
		list = append(list, job(j))
	}
	return list, nil
}

// Job implements engine.Jobs.
func (c room) Job(ctx context.Context, id config.JobID) (engine.Job, error) {
	return c.WaitJob(ctx, id, 0)
}

// WaitJob implements engine.Jobs.
func (c room) WaitJob(ctx context.Context, id config.JobID, wait time.Duration) (engine.Job, error) {
	a, err := c.jobs.WaitJob(within(ctx, callTimeout+wait), &guestpb.WaitJobRequest{User: string(c.user), Id: string(id), TimeoutNanos: int64(wait)})
	return job(a.GetJob()), err
}

// KillJob implements engine.Jobs.
func (c room) KillJob(ctx context.Context, id config.JobID, hard bool) (engine.Job, error) {
	a, err := c.jobs.KillJob(ctx, &guestpb.KillJobRequest{User: string(c.user), Id: string(id), Hard: hard})
	return job(a.GetJob()), err
}

// TailJob implements engine.Jobs.
func (c room) TailJob(ctx context.Context, id config.JobID, offset uint64, wait time.Duration) (engine.JobTail, error) {
	return c.tailJob(ctx, wait, &guestpb.TailJobRequest{User: string(c.user), Id: string(id), Offset: offset, WaitNanos: int64(wait)})
}

// TailJobEnd implements engine.Jobs.
func (c room) TailJobEnd(ctx context.Context, id config.JobID, n uint64) (engine.JobTail, error) {
	return c.tailJob(ctx, 0, &guestpb.TailJobRequest{User: string(c.user), Id: string(id), FromEnd: n})
}

func (c room) tailJob(ctx context.Context, wait time.Duration, r *guestpb.TailJobRequest) (engine.JobTail, error) {
	a, err := c.jobs.TailJob(within(ctx, callTimeout+wait), r)
	if err != nil {
		return engine.JobTail{}, err
	}
	return engine.JobTail{Data: bytes.Clone(a.Data[:min(len(a.Data), protocol.Chunk)]), Offset: a.Offset, Job: job(a.Job)}, nil
}

func job(j *guestpb.Job) engine.Job {
	if j == nil {
		return engine.Job{}
	}
	out := engine.Job{
		ID: config.JobID(printable.Clip(j.Id)), User: printable.Clip(j.User), Label: printable.Clip(j.Label), Plugin: config.PluginID(printable.Clip(j.Plugin)),
		Running: !j.Ended, PID: int(j.Pid), Started: time.Unix(0, j.StartedUnixNano),
		Code: int(j.Code), Signal: engine.Signal(j.Signal), OOM: j.Oom, Pids: j.Pids, Killed: j.Killed,
		Written: j.Written, Dropped: j.Dropped, LogFile: printable.Clip(j.LogFile),
	}
	for _, a := range bound(j.Args) {
		out.Args = append(out.Args, printable.Clip(string(a)))
	}
	if !out.Running {
		out.Ended = time.Unix(0, j.EndedUnixNano)
	}
	return out
}

package guest

import (
	"bytes"
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// StartJob starts a job and returns when it runs. It fails as Exec does, with
// Rejected also when too many jobs of the user run.
func (c *Client) StartJob(ctx context.Context, cmd engine.JobCommand) (engine.Job, error) {
	r := &guestpb.StartJobRequest{
		User: string(cmd.User), Args: wire.Bytes(cmd.Args), Env: wire.Bytes(cmd.Env), Dir: []byte(cmd.Dir), Label: cmd.Label,
		Plugin: string(cmd.Plugin), Offline: cmd.Offline,
	}
	if err := wire.CheckJob(r); err != nil {
		return engine.Job{}, err
	}
	a, err := call(ctx, "start job", c.jobs.StartJob, r)
	return job(a.GetJob()), err
}

// Jobs lists a user's jobs, the newest first.
func (c *Client) Jobs(ctx context.Context, user config.LinuxUser) ([]engine.Job, error) {
	a, err := call(ctx, "list jobs", c.jobs.ListJobs, &guestpb.ListJobsRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	var list []engine.Job
	for _, j := range a.Jobs[:min(len(a.Jobs), wire.MaxJobs)] {
		list = append(list, job(j))
	}
	return list, nil
}

// Job says how a job is. Like the calls below it fails with NotFound when the
// user has no such job, or not any more.
func (c *Client) Job(ctx context.Context, user config.LinuxUser, id config.JobID) (engine.Job, error) {
	a, err := call(ctx, "ask for job "+string(id), c.jobs.PollJob, &guestpb.PollJobRequest{User: string(user), Id: string(id)})
	return job(a.GetJob()), err
}

// WaitJob returns when the job has ended or the wait, of at most MaxJobWait, is
// over; the job says which.
func (c *Client) WaitJob(ctx context.Context, user config.LinuxUser, id config.JobID, wait time.Duration) (engine.Job, error) {
	a, err := callWithin(ctx, callTimeout+wait, "wait for job", string(id), c.jobs.WaitJob,
		&guestpb.WaitJobRequest{User: string(user), Id: string(id), TimeoutNanos: int64(wait)})
	return job(a.GetJob()), err
}

// KillJob sends SIGTERM, or SIGKILL if it is to be hard, to all that belongs to
// a job.
func (c *Client) KillJob(ctx context.Context, user config.LinuxUser, id config.JobID, hard bool) (engine.Job, error) {
	how := guestpb.KillJobRequest_HOW_TERM
	if hard {
		how = guestpb.KillJobRequest_HOW_KILL
	}
	a, err := call(ctx, "kill job "+string(id), c.jobs.KillJob, &guestpb.KillJobRequest{User: string(user), Id: string(id), How: how})
	return job(a.GetJob()), err
}

// TailJob reads a job's output from an offset on: at most 64 KiB, and where
// there is none yet it waits for some, at most for wait.
func (c *Client) TailJob(ctx context.Context, user config.LinuxUser, id config.JobID, offset uint64, wait time.Duration) (engine.JobTail, error) {
	return c.tailJob(ctx, wait, &guestpb.TailJobRequest{User: string(user), Id: string(id), Offset: offset, WaitNanos: int64(wait)})
}

// TailJobEnd reads the last n bytes, at most 64 KiB, of a job's output.
func (c *Client) TailJobEnd(ctx context.Context, user config.LinuxUser, id config.JobID, n uint64) (engine.JobTail, error) {
	return c.tailJob(ctx, 0, &guestpb.TailJobRequest{User: string(user), Id: string(id), FromEnd: n})
}

func (c *Client) tailJob(ctx context.Context, wait time.Duration, r *guestpb.TailJobRequest) (engine.JobTail, error) {
	a, err := callWithin(ctx, callTimeout+wait, "read output of job", r.Id, c.jobs.TailJob, r)
	if err != nil {
		return engine.JobTail{}, err
	}
	return engine.JobTail{Data: bytes.Clone(a.Data[:min(len(a.Data), wire.Chunk)]), Offset: a.Offset, Job: job(a.Job)}, nil
}

func job(j *guestpb.Job) engine.Job {
	if j == nil {
		return engine.Job{}
	}
	out := engine.Job{
		ID: config.JobID(printable.Clip(j.Id)), User: printable.Clip(j.User), Label: printable.Clip(j.Label), Plugin: config.PluginID(printable.Clip(j.Plugin)),
		Running: j.State == guestpb.Job_STATE_RUNNING, PID: int(j.Pid), Started: time.Unix(0, j.StartedUnixNano),
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

package guest

import (
	"bytes"
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// JobCommand is a command to run in the background.
type JobCommand struct {
	User  config.LinuxUser // whose room; empty is root of the guest
	Args  []string         // a program without a slash is looked for in PATH
	Env   []string         // NAME=value, over the user's login environment
	Dir   string           // relative to the home
	Label string           // for people
	// As in Command.
	Plugin  config.PluginID
	Offline bool
}

// Job is a job as the guest says it is.
type Job struct {
	ID             config.JobID
	User           string
	Args           []string // clipped
	Label          string
	Plugin         config.PluginID // for which the host has started it; empty for the agent itself
	Running        bool
	PID            int // in the guest; for show only
	Started, Ended time.Time
	Code           int    // when it has ended and Signal is 0
	Signal         Signal // that ended it
	OOM, Pids      bool   // its room was at its limit of memory, of processes
	Killed         bool   // by KillJob
	// Written is how many bytes of output there were, Dropped how many of the
	// first the log no longer has.
	Written, Dropped uint64
	// LogFile is where the job's room shows the end of its output, to be read only:
	// the file that grows, and beside it, with ".1" after its name, the part before.
	LogFile string
}

// Status is the one number that a shell would show of a job that has ended.
func (j Job) Status() int { return Exit{Code: j.Code, Signal: j.Signal}.Status() }

// JobTail is a part of a job's output.
type JobTail struct {
	Data   []byte
	Offset uint64 // of Data; the next part begins at Offset + len(Data)
	Job    Job
}

// MaxJobWait is the longest that one WaitJob or TailJob waits.
const MaxJobWait = wire.MaxJobWait

// StartJob starts a job and returns when it runs. It fails as Exec does, with
// Rejected also when too many jobs of the user run.
func (c *Client) StartJob(ctx context.Context, cmd JobCommand) (Job, error) {
	r := &guestpb.StartJobRequest{
		User: string(cmd.User), Args: wire.Bytes(cmd.Args), Env: wire.Bytes(cmd.Env), Dir: []byte(cmd.Dir), Label: cmd.Label,
		Plugin: string(cmd.Plugin), Offline: cmd.Offline,
	}
	if err := wire.CheckJob(r); err != nil {
		return Job{}, err
	}
	a, err := call(ctx, "start job", c.jobs.StartJob, r)
	return job(a.GetJob()), err
}

// Jobs lists a user's jobs, the newest first.
func (c *Client) Jobs(ctx context.Context, user config.LinuxUser) ([]Job, error) {
	a, err := call(ctx, "list jobs", c.jobs.ListJobs, &guestpb.ListJobsRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	var list []Job
	for _, j := range a.Jobs[:min(len(a.Jobs), wire.MaxJobs)] {
		list = append(list, job(j))
	}
	return list, nil
}

// Job says how a job is. Like the calls below it fails with NotFound when the
// user has no such job, or not any more.
func (c *Client) Job(ctx context.Context, user config.LinuxUser, id config.JobID) (Job, error) {
	a, err := call(ctx, "ask for job "+string(id), c.jobs.PollJob, &guestpb.PollJobRequest{User: string(user), Id: string(id)})
	return job(a.GetJob()), err
}

// WaitJob returns when the job has ended or the wait, of at most MaxJobWait, is
// over; the job says which.
func (c *Client) WaitJob(ctx context.Context, user config.LinuxUser, id config.JobID, wait time.Duration) (Job, error) {
	a, err := callWithin(ctx, callTimeout+wait, "wait for job", string(id), c.jobs.WaitJob,
		&guestpb.WaitJobRequest{User: string(user), Id: string(id), TimeoutNanos: int64(wait)})
	return job(a.GetJob()), err
}

// KillJob sends SIGTERM, or SIGKILL if it is to be hard, to all that belongs to
// a job.
func (c *Client) KillJob(ctx context.Context, user config.LinuxUser, id config.JobID, hard bool) (Job, error) {
	how := guestpb.KillJobRequest_HOW_TERM
	if hard {
		how = guestpb.KillJobRequest_HOW_KILL
	}
	a, err := call(ctx, "kill job "+string(id), c.jobs.KillJob, &guestpb.KillJobRequest{User: string(user), Id: string(id), How: how})
	return job(a.GetJob()), err
}

// TailJob reads a job's output from an offset on: at most 64 KiB, and where
// there is none yet it waits for some, at most for wait.
func (c *Client) TailJob(ctx context.Context, user config.LinuxUser, id config.JobID, offset uint64, wait time.Duration) (JobTail, error) {
	return c.tailJob(ctx, wait, &guestpb.TailJobRequest{User: string(user), Id: string(id), Offset: offset, WaitNanos: int64(wait)})
}

// TailJobEnd reads the last n bytes, at most 64 KiB, of a job's output.
func (c *Client) TailJobEnd(ctx context.Context, user config.LinuxUser, id config.JobID, n uint64) (JobTail, error) {
	return c.tailJob(ctx, 0, &guestpb.TailJobRequest{User: string(user), Id: string(id), FromEnd: n})
}

func (c *Client) tailJob(ctx context.Context, wait time.Duration, r *guestpb.TailJobRequest) (JobTail, error) {
	a, err := callWithin(ctx, callTimeout+wait, "read output of job", r.Id, c.jobs.TailJob, r)
	if err != nil {
		return JobTail{}, err
	}
	return JobTail{Data: bytes.Clone(a.Data[:min(len(a.Data), wire.Chunk)]), Offset: a.Offset, Job: job(a.Job)}, nil
}

func job(j *guestpb.Job) Job {
	if j == nil {
		return Job{}
	}
	out := Job{
		ID: config.JobID(printable.Clip(j.Id)), User: printable.Clip(j.User), Label: printable.Clip(j.Label), Plugin: config.PluginID(printable.Clip(j.Plugin)),
		Running: j.State == guestpb.Job_STATE_RUNNING, PID: int(j.Pid), Started: time.Unix(0, j.StartedUnixNano),
		Code: int(j.Code), Signal: Signal(j.Signal), OOM: j.Oom, Pids: j.Pids, Killed: j.Killed,
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

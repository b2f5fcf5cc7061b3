package tools

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// tailBytes bounds the part of a log that is shown.
	tailBytes = 64 << 10
	// killPatience is how long kill waits for the job to end.
	killPatience = 2 * time.Second
)

type processIn struct {
	Action    string `json:"action" limit:"enum=list|poll|wait|kill|tail"`
	JobID     string `json:"job_id,omitempty" jsonschema:"from sandbox_exec with background:true"`
	PID       string `json:"pid,omitempty" jsonschema:"instead of the job_id: the pid of one of your jobs"`
	Timeout   int    `json:"timeout,omitempty" jsonschema:"for action wait: seconds" limit:"min=1,max=300,default=60"`
	TailLines int    `json:"tail_lines,omitempty" jsonschema:"how many lines of its output to show" limit:"min=0,max=200,default=40"`
	Force     bool   `json:"force,omitempty" jsonschema:"for action kill: use SIGKILL instead of SIGTERM"`
}

type processOut struct {
	Jobs *[]jobOut `json:"jobs,omitempty" jsonschema:"of list: the newest first"`

	*jobOut
	TimedOut *bool  `json:"timed_out,omitempty" jsonschema:"of wait: it runs on"`
	Killed   *bool  `json:"killed,omitempty" jsonschema:"of kill: it has ended"`
	Signal   string `json:"signal,omitempty"`
	LogTail  string `json:"log_tail,omitzero"`
}

type jobOut struct {
	JobID    string `json:"job_id"`
	PID      string `json:"pid"`
	Command  string `json:"command"`
	Alive    bool   `json:"alive"`
	Exited   bool   `json:"exited"`
	ExitCode *int   `json:"exit_code,omitempty" jsonschema:"128 + n if signal n ended it"`
	Limit    string `json:"limit,omitempty" jsonschema:"the agent's limit that it reached: oom or pids"`
	LogFile  string `json:"log_file"`
	Started  string `json:"started"`
}

func jobOutOf(j engine.Job) *jobOut {
	command := cmp.Or(j.Label, strings.Join(j.Args, " ")) // jobs that a person started have no label
	out := &jobOut{
		JobID: string(j.ID), PID: fmt.Sprint(j.PID), Command: strings.ToValidUTF8(command, "\uFFFD"), Alive: j.Running, Exited: !j.Running,
		LogFile: j.LogFile, Started: j.Started.UTC().Format(time.RFC3339), Limit: limitOf(engine.Exit{OOM: j.OOM, PIDs: j.Pids}),
	}
	if !j.Running {
		status := j.Status()
		out.ExitCode = &status
	}
	return out
}

// newProcess makes sandbox_process.
func newProcess(rooms Rooms) Tool {
	t := inRoom(rooms, Spec{
		Name: "sandbox_process", Title: "Look after background commands", Gate: Exec, Lean: true, Budget: 300*time.Second + bootTime,
		Hints:       Hints{Destructive: true, Idempotent: true},
		Description: `List, poll, wait for, read the output of (tail) or kill what sandbox_exec started with background:true.`,
	}, func(ctx context.Context, c *Call, in processIn) (processOut, error) {
		if in.Action == "list" {
			jobs, err := c.room.Jobs(ctx)
			list := make([]jobOut, len(jobs))
			for i, j := range jobs {
				list[i] = *jobOutOf(j)
			}
			return processOut{Jobs: &list}, err
		}
		meant, err := findJob(ctx, c, in)
		if err != nil {
			return processOut{}, err
		}
		if in.Action == "kill" && !meant.Running {
			c.Warn("it had ended before")
		}
		id := meant.ID
		out, job, err := act(ctx, c, id, in)
		if err != nil {
			return processOut{}, err
		}
		out.jobOut = jobOutOf(job)
		if in.TailLines > 0 {
			tail, err := c.room.TailJobEnd(ctx, id, tailBytes)
			if err != nil {
				return processOut{}, err
			}
			out.LogTail = printable.LastLines(strings.ToValidUTF8(string(tail.Data), "\uFFFD"), in.TailLines)
		}
		return out, nil
	})
	t.Output.Required = nil // those of jobOut: it is nil for a list
	return t
}

// act performs the action on one job.
func act(ctx context.Context, c *Call, id config.JobID, in processIn) (out processOut, job engine.Job, err error) {
	switch in.Action {
	case "wait":
		job, err = c.room.WaitJob(ctx, id, time.Duration(in.Timeout)*time.Second)
		out.TimedOut = &job.Running
	case "kill":
		if out.Signal = "SIGTERM"; in.Force {
			out.Signal = "SIGKILL"
		}
		if job, err = c.room.KillJob(ctx, id, in.Force); err == nil && job.Running {
			job, err = c.room.WaitJob(ctx, id, killPatience)
		}
		ended := !job.Running
		if out.Killed = &ended; !ended && !in.Force {
			c.Warn("it has not ended yet; kill it with force:true if it does not")
		}
	default: // poll and tail
		job, err = c.room.Job(ctx, id)
	}
	return out, job, err
}

// findJob returns the job that the arguments name. A pid is only looked up among the agent's
// jobs, so it cannot reach other processes.
func findJob(ctx context.Context, c *Call, in processIn) (engine.Job, error) {
	if in.JobID == "" && in.PID == "" {
		return engine.Job{}, wrongArgument("job_id", "the job_id that sandbox_exec answered; action list shows all", "%s needs a job", in.Action)
	}
	jobs, err := c.room.Jobs(ctx)
	if err != nil {
		return engine.Job{}, err
	}
	for _, j := range jobs {
		if in.JobID == string(j.ID) || in.JobID == "" && in.PID == fmt.Sprint(j.PID) {
			return j, nil
		}
	}
	field, text := "job_id", in.JobID
	if text == "" {
		field, text = "pid", in.PID
	}
	return engine.Job{}, &Failure{
		Kind: fault.NotFound, Field: field, Expected: "one of your jobs; action list shows them",
		Message: fmt.Sprintf("you have no job %s. Jobs end with the sandbox, when it is stopped or started again", quoted(text)),
	}
}

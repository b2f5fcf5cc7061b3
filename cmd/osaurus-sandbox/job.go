package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// shortID returns the part of an id that tables show.
func shortID(id string) string {
	const shown = 12
	return id[:min(len(id), shown)]
}

// byPrefix returns the only id that begins with text. Text of an id's length is the id.
func byPrefix(kind, text string, length int, list func() ([]string, error)) (string, error) {
	if len(text) == length || text == "" {
		return text, nil
	}
	ids, err := list()
	if err != nil {
		return "", err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, text) })
	switch len(ids) {
	case 0:
		return "", fault.Newf(fault.NotFound, "find "+kind, text, "no id begins with it").Advise("See `osaurus-sandbox " + kind + " list`.")
	case 1:
		return ids[0], nil
	}
	return "", fault.Newf(fault.InvalidArgs, "find "+kind, text, "more than one id begins with it").Advise("Give more characters of the id.")
}

func newJob() *cobra.Command {
	return noun("job", newJobStart(),
		daemonCommand("list [AGENT]", func(ctx context.Context, c *call) error {
			r, err := c.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: c.arg(0)})
			return replyTable(c, r, err, "AGENT\tJOB\tSTATE\tSTARTED\tOUTPUT\tCOMMAND", r.GetJobs(), func(j *controlpb.Job) []any {
				return []any{j.Agent, shortID(j.Id), jobState(j), when(j.Started), bytesText(j.Written), cmp.Or(j.Label, j.Command)}
			})
		}),
		daemonCommand("show AGENT JOB", withJob(func(ctx context.Context, c *call, agent, id string) error {
			r, err := c.Jobs.Wait(ctx, &controlpb.WaitJobRequest{Agent: agent, Id: id, Timeout: durationpb.New(0)})
			return reply(c, r.GetJob(), err, printJob)
		})),
		newJobWait(), newJobKill(), newJobTail())
}

func newJobStart() *cobra.Command {
	var env, secrets []string
	var dir, label string
	return command("start AGENT [flags] -- COMMAND [ARG...]", func(ctx context.Context, c *call) error {
		if c.cmd.ArgsLenAtDash() != 1 {
			return fault.Newf(fault.InvalidArgs, "start job", "", `missing "--" before the command`).Advise("Try: osaurus-sandbox job start alice -- make.")
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		stop := showStart(ctx, c)
		r, err := c.Jobs.Start(ctx, &controlpb.StartJobRequest{
			Agent: c.args[0], Args: c.args[1:], Env: env, Dir: dir, Label: label, Secrets: secrets,
		})
		stop()
		return reply(c, r.GetJob(), err, func(w io.Writer, j *controlpb.Job) error { return writef(w, "%s\n", j.Id) })
	},
		withFlag(&dir, "cwd", "the working directory (default the agent's home)"),
		withFlag(&env, "env", "set an environment variable, as NAME=value"),
		withFlag(&secrets, "secret", "put this secret of the agent into the environment"),
		withFlag(&label, "label", "a name for the job"))
}

// jobState describes the state of a job in a few words.
func jobState(j *controlpb.Job) string {
	if j.Running {
		return "running"
	}
	state := "done"
	switch {
	case j.Signal != 0:
		state = fmt.Sprintf("signal %d", j.Signal)
	case j.Status != 0:
		state = fmt.Sprintf("exit %d", j.Status)
	}
	if j.Killed {
		state += ", killed"
	}
	if j.Oom {
		state += ", no memory"
	}
	if j.Pids {
		state += ", no processes"
	}
	return state
}

// withJob is for commands with the arguments AGENT and JOB, the beginning of a job's id.
func withJob(run func(ctx context.Context, c *call, agent, id string) error) runFunc {
	return func(ctx context.Context, c *call) error {
		const length = 32
		id, err := byPrefix("job", c.args[1], length, func() ([]string, error) {
			r, err := c.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: c.args[0]})
			return offers(r.GetJobs(), (*controlpb.Job).GetId), err
		})
		if err != nil {
			return err
		}
		return run(ctx, c, c.args[0], id)
	}
}

func printJob(w io.Writer, j *controlpb.Job) error {
	table := newTable(w)
	table.field("id", j.Id)
	table.field("agent", j.Agent)
	table.field("command", j.Command)
	table.field("label", j.Label)
	table.field("state", jobState(j))
	table.field("started", when(j.Started))
	if !j.Running {
		table.field("took", j.Ended.AsTime().Sub(j.Started.AsTime()).Round(time.Millisecond).String())
	}
	output := bytesText(j.Written)
	if j.Dropped > 0 {
		output += " (the first " + bytesText(j.Dropped) + " are gone)"
	}
	table.field("output", output)
	table.field("log in the room", j.LogFile)
	return table.Flush()
}

func newJobWait() *cobra.Command {
	var timeout time.Duration
	return daemonCommand("wait AGENT JOB", withJob(func(ctx context.Context, c *call, agent, id string) error {
		request := &controlpb.WaitJobRequest{Agent: agent, Id: id}
		if timeout != 0 {
			request.Timeout = durationpb.New(timeout)
		}
		r, err := c.Jobs.Wait(ctx, request)
		switch err := reply(c, r.GetJob(), err, printJob); {
		case err != nil:
			return err
		case r.Job.Running:
			return fault.Newf(fault.Timeout, "wait for job", id, "it still runs").Advise("Wait longer with --timeout, or end it: osaurus-sandbox job kill.")
		case r.Job.Status != 0:
			return exit{code: int(r.Job.Status)}
		}
		return nil
	}),
		runsCommand,
		withFlag(&timeout, "timeout", "wait no longer than this, as in 90s (default for ever)"))
}

func newJobKill() *cobra.Command {
	var hard bool
	return daemonCommand("kill AGENT JOB", withJob(func(ctx context.Context, c *call, agent, id string) error {
		r, err := c.Jobs.Kill(ctx, &controlpb.KillJobRequest{Agent: agent, Id: id, Kill: hard})
		return reply(c, r.GetJob(), err, nil)
	}),
		withFlag(&hard, "kill", "send SIGKILL, which no program can ignore"))
}

// tailBytes is how much output is searched for the last lines. The daemon reads back no more at
// once.
const tailBytes = 64 << 10

func newJobTail() *cobra.Command {
	var follow, all bool
	lines := uint(10)
	return daemonCommand("tail AGENT JOB", withJob(func(ctx context.Context, c *call, agent, id string) error {
		request := &controlpb.TailJobRequest{Agent: agent, Id: id, FromEnd: tailBytes, Follow: follow}
		if all {
			request.FromEnd = 0
		}
		stream, err := c.Jobs.Tail(ctx, request)
		if err != nil {
			return err
		}
		defer stream.Close()
		show := func(part *controlpb.TailJobResponse) error {
			if c.json {
				return printJSONLine(c.out, part)
			}
			_, err := c.out.Write(part.Data)
			return err
		}
		if all {
			return each(stream, show)
		}
		return tailLines(stream, int(lines), follow, show)
	}),
		withFlag(&follow, "follow, f", "keep printing until the job ends"),
		withFlag(&all, "all", "print all output that is kept"),
		withFlag(&lines, "lines, n", "how many of the last lines to print"))
}

// jobOutput is the daemon's stream of a job's output.
type jobOutput = connect.ServerStreamForClient[controlpb.TailJobResponse]

// each calls show for each part.
func each(stream *jobOutput, show func(*controlpb.TailJobResponse) error) error {
	for stream.Receive() {
		if err := show(stream.Msg()); err != nil {
			return err
		}
	}
	return stream.Err()
}

// tailLines shows the last lines of the output so far and, with follow, everything after it. When
// following, the first part holds the earlier output.
func tailLines(stream *jobOutput, lines int, follow bool, show func(*controlpb.TailJobResponse) error) error {
	if !stream.Receive() {
		return stream.Err()
	}
	part := stream.Msg()
	for !follow && stream.Receive() {
		more := stream.Msg()
		part.Data, part.Next, part.Job = append(part.Data, more.Data...), more.Next, more.Job
	}
	last := []byte(printable.LastLines(string(part.Data), lines))
	part.Data, part.Offset = last, part.Offset+uint64(len(part.Data)-len(last))
	if err := show(part); err != nil {
		return err
	}
	return each(stream, show)
}

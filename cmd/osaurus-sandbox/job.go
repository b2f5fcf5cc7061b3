package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
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
	return "", fault.Newf(fault.InvalidArgs, "find "+kind, text, "more than one id begins with it").Advise("Write more of it.")
}

func newJob(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Run commands of agents in the background",
		Long: `A job is a command that an agent runs in the background. It goes on when this program or its terminal ends. It keeps the guest from
being stopped as idle, and ends with the guest. The beginning of a job's id is enough.`,
		Example: `  id=$(osaurus-sandbox job start alice -- sh -c 'make -j2 && make check')
  osaurus-sandbox job tail -f alice $id
  osaurus-sandbox job wait alice $id
  osaurus-sandbox job kill alice $id`,
	}
	cmd.AddCommand(newJobStart(c), newJobList(c), newJobShow(c), newJobWait(c), newJobKill(c), newJobTail(c))
	return cmd
}

func newJobStart(c console) *cobra.Command {
	var env, secrets []string
	var dir, label string
	cmd := &cobra.Command{
		Use:   "start AGENT [flags] -- COMMAND [ARG...]",
		Short: "Start a job and print its id",
		Example: `  osaurus-sandbox job start alice -- sh -c 'make 2>&1 | tee build.log'
  osaurus-sandbox job start alice --cwd src --label build -- make`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			if cmd.ArgsLenAtDash() != 1 {
				return fault.Newf(fault.InvalidArgs, "start job", "", `missing "--" before the command`).Advise("Try: osaurus-sandbox job start alice -- make.")
			}
			stop := showStart(cmd.Context(), c, client)
			r, err := client.Jobs.Start(cmd.Context(), &controlpb.StartJobRequest{
				Agent: args[0], Args: args[1:], Env: env, Dir: dir, Label: label, Secrets: secrets,
			})
			stop()
			return reply(cmd, r.GetJob(), err, func(w io.Writer, j *controlpb.Job) error { return writef(w, "%s\n", j.Id) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "cwd", "", "the folder it runs in; relative to the agent's home, which is the default")
	f.StringArrayVar(&env, "env", nil, "set an environment variable, as NAME=value")
	f.StringArrayVar(&secrets, "secret", nil, "put this secret of the agent into the environment")
	f.StringVar(&label, "label", "", "what you call it")
	return withJSON(cmd)
}

func newJobList(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the jobs of an agent, or of all",
		Long:  "Lists the jobs that run, and those that ended last. It does not start the guest: if that does not run, there are none.",
		Example: `  osaurus-sandbox job list
  osaurus-sandbox job list alice`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Jobs.List(cmd.Context(), &controlpb.ListJobsRequest{Agent: first(args)})
			return replyTable(cmd, r, err, "AGENT\tJOB\tSTATE\tSTARTED\tOUTPUT\tCOMMAND", r.GetJobs(), func(j *controlpb.Job) []any {
				return []any{j.Agent, shortID(j.Id), jobState(j), when(j.Started), bytesText(j.Written), cmp.Or(j.Label, j.Command)}
			})
		}),
	})
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

// withJob is withClient for commands with the arguments AGENT and a prefix of a job's id.
func withJob(do func(cmd *cobra.Command, client *control.Client, agent, id string) error) func(*cobra.Command, []string) error {
	return withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
		const length = 32
		id, err := byPrefix("job", args[1], length, func() ([]string, error) {
			r, err := client.Jobs.List(cmd.Context(), &controlpb.ListJobsRequest{Agent: args[0]})
			return offers(r.GetJobs(), (*controlpb.Job).GetId), err
		})
		if err != nil {
			return err
		}
		return do(cmd, client, args[0], id)
	})
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
		output += ", of which the first " + bytesText(j.Dropped) + " are not kept"
	}
	table.field("output", output)
	table.field("log in the room", j.LogFile)
	return table.Flush()
}

func newJobShow(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "show AGENT JOB",
		Short:   "Show a job's status",
		Example: `  osaurus-sandbox job show alice 3f2a`,
		RunE: withJob(func(cmd *cobra.Command, client *control.Client, agent, id string) error {
			r, err := client.Jobs.Poll(cmd.Context(), &controlpb.PollJobRequest{Agent: agent, Id: id})
			return reply(cmd, r.GetJob(), err, printJob)
		}),
	})
}

func newJobWait(c console) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:         "wait AGENT JOB",
		Short:       "Wait until a job has ended",
		Long:        "Waits until a job has ended. The exit code is the job's own, or 128+n if signal n ended it. It is 125 if the job still runs when\n--timeout is over, or if its code is not known.",
		Example:     `  osaurus-sandbox job wait alice 3f2a --timeout 10m`,
		Annotations: map[string]string{runsCommand: "true"},
		RunE: withJob(func(cmd *cobra.Command, client *control.Client, agent, id string) error {
			request := &controlpb.WaitJobRequest{Agent: agent, Id: id}
			if timeout != 0 {
				request.Timeout = durationpb.New(timeout)
			}
			r, err := client.Jobs.Wait(cmd.Context(), request)
			switch err := reply(cmd, r.GetJob(), err, printJob); {
			case err != nil:
				return err
			case r.Job.Running:
				return fault.Newf(fault.Timeout, "wait for job", id, "it still runs").Advise("Wait longer with --timeout, or end it: osaurus-sandbox job kill.")
			case r.Job.Status != 0:
				return exit{code: int(r.Job.Status)}
			}
			return nil
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this, as in 90s (default for ever)")
	return withJSON(cmd)
}

func newJobKill(c console) *cobra.Command {
	var hard bool
	cmd := &cobra.Command{
		Use:   "kill AGENT JOB",
		Short: "End a job and all that it has started",
		Long:  "Sends SIGTERM to all processes of a job, or with --kill SIGKILL. Wait for its end with `job wait`.",
		Example: `  osaurus-sandbox job kill alice 3f2a
  osaurus-sandbox job kill alice 3f2a --kill`,
		RunE: withJob(func(cmd *cobra.Command, client *control.Client, agent, id string) error {
			r, err := client.Jobs.Kill(cmd.Context(), &controlpb.KillJobRequest{Agent: agent, Id: id, Kill: hard})
			return reply(cmd, r.GetJob(), err, nil)
		}),
	}
	cmd.Flags().BoolVar(&hard, "kill", false, "send SIGKILL, which no program can ignore")
	return withJSON(cmd)
}

// tailBytes is how much output is searched for the last lines. The daemon reads back no more at
// once.
const tailBytes = 64 << 10

func newJobTail(c console) *cobra.Command {
	var follow, all bool
	var lines uint
	cmd := &cobra.Command{
		Use:   "tail AGENT JOB",
		Short: "Print what a job has written",
		Long:  "Prints the last lines that a job has written, to standard output or error, and with -f what it writes until its end.",
		Example: `  osaurus-sandbox job tail -f alice 3f2a
  osaurus-sandbox job tail alice 3f2a --all > build.log`,
		RunE: withJob(func(cmd *cobra.Command, client *control.Client, agent, id string) error {
			request := &controlpb.TailJobRequest{Agent: agent, Id: id, FromEnd: tailBytes, Follow: follow}
			if all {
				request.FromEnd = 0
			}
			stream, err := client.Jobs.Tail(cmd.Context(), request)
			if err != nil {
				return err
			}
			defer stream.Close()
			show := func(part *controlpb.TailJobResponse) error {
				if wantsJSON(cmd) {
					return printLine(c.out, part)
				}
				_, err := c.out.Write(part.Data)
				return err
			}
			if all {
				return each(stream, show)
			}
			return tailLines(stream, int(lines), follow, show)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().BoolVar(&all, "all", false, "from the beginning, as far as it is kept")
	cmd.Flags().UintVarP(&lines, "lines", "n", 10, "how many lines")
	return withJSON(cmd)
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

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// shortID is as much of an id as is shown: nobody meets another by chance.
func shortID(id string) string {
	const shown = 12
	return id[:min(len(id), shown)]
}

// byPrefix is the one of ids that begins with text, which is a whole one if it is of their length.
func byPrefix(kind, text string, length int, ids iter.Seq2[string, error]) (string, error) {
	if len(text) == length || text == "" {
		return text, nil
	}
	op, found := "find "+kind, ""
	for id, err := range ids {
		switch {
		case err != nil:
			return "", err
		case !strings.HasPrefix(id, text):
		case found != "":
			return "", fault.Newf(fault.InvalidArgs, op, text, "more than one id begins so").Advise("Write more of it.")
		default:
			found = id
		}
	}
	if found == "" {
		return "", fault.Newf(fault.NotFound, op, text, "there is none whose id begins so").Advise("See `osaurus-sandbox " + kind + " list`.")
	}
	return found, nil
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
		Args: cobra.NoArgs,
		RunE: showHelp,
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
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 {
				return fault.Newf(fault.InvalidArgs, "start job", "", "it is not clear which part is the command").
					Advise("Write one name of an agent, then --, then the command: osaurus-sandbox job start alice -- make.")
			}
			client, err := need(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			stop := showStart(cmd.Context(), c, client)
			r, err := client.Jobs.Start(cmd.Context(), &controlpb.StartJobRequest{
				Agent: args[0], Args: args[1:], Env: env, Dir: dir, Label: label, Secrets: secrets,
			})
			stop()
			return reply(cmd, r.GetJob(), err, func(w io.Writer, j *controlpb.Job) error { return writef(w, "%s\n", j.Id) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "cwd", "", "the folder it runs in; relative to the agent's home, which is the default")
	f.StringArrayVar(&env, "env", nil, "another variable of its environment, as NAME=value")
	f.StringArrayVar(&secrets, "secret", nil, "have this secret of the agent in its environment too")
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
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Jobs.List(cmd.Context(), &controlpb.ListJobsRequest{Agent: first(args)})
			return reply(cmd, r, err, func(w io.Writer, r *controlpb.ListJobsResponse) error {
				return printTable(w, "AGENT\tJOB\tSTATE\tSTARTED\tOUTPUT\tCOMMAND", r.Jobs, func(j *controlpb.Job) []any {
					return []any{j.Agent, shortID(j.Id), jobState(j), when(j.Started), bytesText(j.Written), cmp.Or(j.Label, j.Command)}
				})
			})
		}),
	})
}

// jobState is how a job is, in a few words.
func jobState(j *controlpb.Job) string {
	if j.Running {
		return "running"
	}
	var words []string
	switch {
	case j.Signal != 0:
		words = append(words, fmt.Sprintf("signal %d", j.Signal))
	case j.Status != 0:
		words = append(words, fmt.Sprintf("exit %d", j.Status))
	default:
		words = append(words, "done")
	}
	for _, also := range []struct {
		is   bool
		word string
	}{{j.Killed, "killed"}, {j.Oom, "no memory"}, {j.Pids, "no processes"}} {
		if also.is {
			words = append(words, also.word)
		}
	}
	return strings.Join(words, ", ")
}

// withJob calls the daemon about the job that is meant by a beginning of its id.
func withJob(ctx context.Context, agent, text string, do func(client *control.Client, id string) error) error {
	client, err := need(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	const length = 32
	id, err := byPrefix("job", text, length, func(yield func(string, error) bool) {
		r, err := client.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: agent})
		if err != nil {
			yield("", err)
		}
		for _, j := range r.GetJobs() {
			if !yield(j.Id, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return do(client, id)
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
		Short:   "Show how a job is doing",
		Example: `  osaurus-sandbox job show alice 3f2a`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd.Context(), args[0], args[1], func(client *control.Client, id string) error {
				r, err := client.Jobs.Poll(cmd.Context(), &controlpb.PollJobRequest{Agent: args[0], Id: id})
				return reply(cmd, r.GetJob(), err, printJob)
			})
		},
	})
}

func newJobWait(c console) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:         "wait AGENT JOB",
		Short:       "Wait until a job has ended",
		Long:        "Waits until a job has ended. The exit code is the job's own, or 128+n if signal n ended it. It is 125 if the job still runs when\n--timeout is over, or if its code is not known.",
		Example:     `  osaurus-sandbox job wait alice 3f2a --timeout 10m`,
		Args:        cobra.ExactArgs(2),
		Annotations: map[string]string{runsCommand: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd.Context(), args[0], args[1], func(client *control.Client, id string) error {
				request := &controlpb.WaitJobRequest{Agent: args[0], Id: id}
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
			})
		},
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
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd.Context(), args[0], args[1], func(client *control.Client, id string) error {
				r, err := client.Jobs.Kill(cmd.Context(), &controlpb.KillJobRequest{Agent: args[0], Id: id, Kill: hard})
				return reply(cmd, r.GetJob(), err, nil)
			})
		},
	}
	cmd.Flags().BoolVar(&hard, "kill", false, "send SIGKILL, which no program can ignore")
	return withJSON(cmd)
}

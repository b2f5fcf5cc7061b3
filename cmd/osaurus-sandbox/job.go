package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
)

// shortID is how much of a job's id is shown: nobody meets another by chance.
const shortID = 12

func newJob(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Run commands of agents in the background",
		Long: `A job is a command of an agent that nobody waits for. It goes on when this program, its terminal or the connection ends, keeps
the guest from being stopped as idle, and ends with the guest. The beginning of a job's id is enough.`,
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
	var asJSON bool
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
				return fault.Newf(fault.InvalidArgs, "start job", "", "which part is the command?").
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
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r.Job)
			}
			_, err = writef(c.out, "%s\n", r.Job.Id)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "cwd", "", "the folder it runs in; relative to the agent's home, which is the default")
	f.StringArrayVar(&env, "env", nil, "another variable of its environment, as NAME=value")
	f.StringArrayVar(&secrets, "secret", nil, "have this secret of the agent in its environment too")
	f.StringVar(&label, "label", "", "what you call it")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newJobList(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the jobs of an agent, or of all",
		Long:  "Lists the jobs that run, and those that ended last. It starts no guest: without one there are none.",
		Example: `  osaurus-sandbox job list
  osaurus-sandbox job list alice`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Jobs.List(cmd.Context(), &controlpb.ListJobsRequest{Agent: first(args)})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			table := newTable(c.out)
			fmt.Fprintln(table, "AGENT\tJOB\tSTATE\tSTARTED\tOUTPUT\tCOMMAND")
			for _, j := range r.Jobs {
				writef(table, "%s\t%.*s\t%s\t%s\t%s\t%s\n", j.Agent, shortID, j.Id, jobState(j),
					when(j.Started), bytesText(j.Written), cmp.Or(j.Label, j.Command))
			}
			return table.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
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
	const whole = 32
	if len(text) == whole || text == "" {
		return do(client, text)
	}
	r, err := client.Jobs.List(ctx, &controlpb.ListJobsRequest{Agent: agent})
	if err != nil {
		return err
	}
	var found []string
	for _, j := range r.Jobs {
		if strings.HasPrefix(j.Id, text) {
			found = append(found, j.Id)
		}
	}
	switch len(found) {
	case 1:
		return do(client, found[0])
	case 0:
		return fault.New(fault.NotFound, "find job", text, errors.New(agent+" has none whose id begins so")).Advise("See `osaurus-sandbox job list`; jobs end with their guest.")
	}
	return fault.Newf(fault.InvalidArgs, "find job", text, "more than one id begins so").Advise("Write more of it.")
}

func printJob(w io.Writer, j *controlpb.Job, asJSON bool) error {
	if asJSON {
		return printProto(w, j)
	}
	table := newTable(w)
	rows := [][2]string{{"id", j.Id}, {"agent", j.Agent}, {"command", j.Command}, {"label", j.Label}, {"state", jobState(j)}, {"started", when(j.Started)}}
	if !j.Running {
		rows = append(rows, [2]string{"took", j.Ended.AsTime().Sub(j.Started.AsTime()).Round(time.Millisecond).String()})
	}
	output := bytesText(j.Written)
	if j.Dropped > 0 {
		output += ", of which the first " + bytesText(j.Dropped) + " are not kept"
	}
	for _, row := range append(rows, [2]string{"output", output}, [2]string{"log in the room", j.LogFile}) {
		if row[1] != "" {
			writef(table, "%s\t%s\n", row[0], row[1])
		}
	}
	return table.Flush()
}

func newJobShow(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show AGENT JOB",
		Short:   "Show how a job is doing",
		Example: `  osaurus-sandbox job show alice 3f2a`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd.Context(), args[0], args[1], func(client *control.Client, id string) error {
				r, err := client.Jobs.Poll(cmd.Context(), &controlpb.PollJobRequest{Agent: args[0], Id: id})
				if err != nil {
					return err
				}
				return printJob(c.out, r.Job, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newJobWait(c console) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:         "wait AGENT JOB",
		Short:       "Wait until a job has ended",
		Long:        "Waits until a job has ended. The exit code is the job's own, 128+n if signal n ended it, and 125 if it still runs when --timeout is over, or if its code is not known.",
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
				if err == nil {
					err = printJob(c.out, r.Job, asJSON)
				}
				switch {
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
	jsonFlag(cmd, &asJSON)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this, as in 90s (default for ever)")
	return cmd
}

func newJobKill(c console) *cobra.Command {
	var asJSON, hard bool
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
				if err != nil || !asJSON {
					return err
				}
				return printProto(c.out, r.Job)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&hard, "kill", false, "SIGKILL, which no program can refuse")
	return cmd
}

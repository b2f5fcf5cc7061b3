package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newTaskTake(c console) *cobra.Command {
	var hold, wait time.Duration
	cmd := &cobra.Command{
		Use:   "take [AGENT]",
		Short: "Take the oldest waiting task, and print it with its lease as JSON",
		Long: `Leases the oldest waiting task of an agent, or of any agent. Nobody else can take it until the lease ends. Prints both as JSON.
Report the result with "task done" or "task fail". If no task waits, the exit code is 7.`,
		Example: `  osaurus-sandbox task take alice --wait 10m --hold 5m > taken.json
  osaurus-sandbox task done $(jq -r '.task.id, .lease' taken.json) It is repaired.`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Tasks.Lease(cmd.Context(), &controlpb.LeaseTaskRequest{Agent: first(args), Hold: durationpb.New(hold), Wait: durationpb.New(wait)})
			switch {
			case err != nil:
				return err
			case r.Task == nil:
				return fault.Newf(fault.NotFound, "take task", first(args), "none waits").Advise("Wait for one with --wait, or see `osaurus-sandbox task list`.")
			}
			return printProto(c.out, r)
		}),
	}
	cmd.Flags().DurationVar(&hold, "hold", time.Minute, "how long the lease is, up to 1h")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for one")
	return alwaysJSON(cmd)
}

func newTaskDone(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "done TASK LEASE [WORD...]",
		Short:   "Report a task done, with its result",
		Example: `  osaurus-sandbox task done $(jq -r '.task.id, .lease' taken.json) It is repaired.`,
		RunE: withTask(func(cmd *cobra.Command, client *control.Client, id string, args []string) error {
			r, err := client.Tasks.Complete(cmd.Context(), &controlpb.CompleteTaskRequest{Id: id, Lease: args[1], Result: strings.Join(args[2:], " ")})
			return reply(cmd, r.GetTask(), err, nil)
		}),
	})
}

func newTaskFail(c console) *cobra.Command {
	var retry bool
	cmd := &cobra.Command{
		Use:     "fail TASK LEASE [WORD...]",
		Short:   "Report a task failed, and why",
		Example: `  osaurus-sandbox task fail --retry $(jq -r '.task.id, .lease' taken.json) The disk is full.`,
		RunE: withTask(func(cmd *cobra.Command, client *control.Client, id string, args []string) error {
			r, err := client.Tasks.Fail(cmd.Context(), &controlpb.FailTaskRequest{Id: id, Lease: args[1], Reason: strings.Join(args[2:], " "), Retry: retry})
			return reply(cmd, r.GetTask(), err, nil)
		}),
	}
	cmd.Flags().BoolVar(&retry, "retry", false, "let somebody try again, unless it was taken 3 times")
	return withJSON(cmd)
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

func newTask(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "See and answer the tasks that agents create",
		Long: `Programs of an agent create tasks for the app that it works for (osaurus-host agent dispatch). A worker takes a task for the time of
its lease, does it and reports the result. If the lease ends first, another worker can take the task. A task that nobody takes for 24
hours expires. The beginning of a task's id is enough.`,
		Example: `  osaurus-sandbox task list
  osaurus-sandbox task show 7F3A
  osaurus-sandbox task cancel 7F3A
  osaurus-sandbox task take alice --wait 10m`,
	}
	cmd.AddCommand(newTaskAdd(c), newTaskList(c), newTaskShow(c), newTaskCancel(c), newTaskTake(c), newTaskDone(c), newTaskFail(c))
	return cmd
}

// withTask is withClient for commands whose first argument is a prefix of a task's id.
func withTask(do func(cmd *cobra.Command, client *control.Client, id string, args []string) error) func(*cobra.Command, []string) error {
	return withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
		const length = 36
		id, err := byPrefix("task", strings.ToUpper(args[0]), length, func() ([]string, error) {
			answers := control.Messages(client.Tasks.List(cmd.Context(), &controlpb.ListTasksRequest{}))
			return collect(answers, func(r *controlpb.ListTasksResponse) string { return r.GetTask().GetId() })
		})
		if err != nil {
			return err
		}
		return do(cmd, client, id, args)
	})
}

func newTaskAdd(c console) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "add AGENT WORD...",
		Short: "Create a task, and print its id",
		Example: `  osaurus-sandbox task add alice Mow the lawn
  osaurus-sandbox task add alice --key chat-1 Mow the lawn`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Tasks.Dispatch(cmd.Context(), &controlpb.DispatchTaskRequest{Agent: args[0], Text: strings.Join(args[1:], " "), Key: key})
			return reply(cmd, r.GetTask(), err, func(w io.Writer, t *controlpb.Task) error { return writef(w, "%s\n", t.Id) })
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "if the agent has a task with this key, that is the task")
	return withJSON(cmd)
}

func newTaskList(c console) *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the tasks of an agent, or of all, the newest first",
		Example: `  osaurus-sandbox task list
  osaurus-sandbox task list alice --open`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			answers := control.Messages(client.Tasks.List(cmd.Context(), &controlpb.ListTasksRequest{Agent: first(args), Open: open}))
			return replyRows(cmd, answers, (*controlpb.ListTasksResponse).GetTask, "AGENT\tTASK\tSTATE\tCREATED\tTEXT", func(t *controlpb.Task) []any {
				return []any{t.Agent, shortID(t.Id), t.State, when(t.Created), fmt.Sprintf("%.100s", printable.Clip(t.Text))}
			})
		}),
	}
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	return withJSON(cmd)
}

func printTask(w io.Writer, t *controlpb.Task) error {
	table := newTable(w)
	// Only the text and the result can have several lines.
	long := func(name, text string) {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			if line != "" || name == "" {
				table.row(name, line)
			}
			name = ""
		}
	}
	table.field("id", t.Id)
	table.field("agent", t.Agent)
	table.field("state", t.State)
	table.field("source", t.Source)
	table.field("key", t.Key)
	table.field("created", when(t.Created))
	table.field("depth", fmt.Sprint(t.Depth))
	table.field("leases", fmt.Sprint(t.Attempts))
	table.field("worker", t.Worker)
	switch {
	case t.Ended != nil:
		table.field("ended", when(t.Ended))
	case t.State == "leased":
		table.field("lease over", when(t.Until))
	default:
		table.field("expires", when(t.Until))
	}
	long("text", t.Text)
	long("result", t.Result)
	return table.Flush()
}

func newTaskShow(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task and its result",
		Example: `  osaurus-sandbox task show 7F3A`,
		RunE: withTask(func(cmd *cobra.Command, client *control.Client, id string, _ []string) error {
			r, err := client.Tasks.Show(cmd.Context(), &controlpb.ShowTaskRequest{Id: id})
			return reply(cmd, r.GetTask(), err, printTask)
		}),
	})
}

func newTaskCancel(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "cancel TASK",
		Short:   "End a task that has not ended",
		Long:    "Ends a task that has not ended. The worker learns of it with its next call. A task that has ended is left as it is.",
		Example: `  osaurus-sandbox task cancel 7F3A`,
		RunE: withTask(func(cmd *cobra.Command, client *control.Client, id string, _ []string) error {
			r, err := client.Tasks.Cancel(cmd.Context(), &controlpb.CancelTaskRequest{Id: id})
			return reply(cmd, r.GetTask(), err, func(w io.Writer, t *controlpb.Task) error { return writef(w, "%s\n", t.State) })
		}),
	})
}

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

package main

import (
	"context"
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

func newTask() *cobra.Command {
	return noun("task", newTaskAdd(), newTaskList(), newTaskShow(), newTaskCancel(), newTaskTake(), newTaskDone(), newTaskFail())
}

// withTask is for commands whose first argument is the beginning of a task's id.
func withTask(run func(ctx context.Context, c *call, id string) error) runFunc {
	return func(ctx context.Context, c *call) error {
		const length = 36
		id, err := byPrefix("task", strings.ToUpper(c.args[0]), length, func() ([]string, error) {
			answers := control.Messages(c.Tasks.List(ctx, &controlpb.ListTasksRequest{}))
			return collect(answers, func(r *controlpb.ListTasksResponse) string { return r.GetTask().GetId() })
		})
		if err != nil {
			return err
		}
		return run(ctx, c, id)
	}
}

func newTaskAdd() *cobra.Command {
	var key string
	return daemonCommand("add AGENT WORD...", func(ctx context.Context, c *call) error {
		r, err := c.Tasks.Dispatch(ctx, &controlpb.DispatchTaskRequest{Agent: c.args[0], Text: strings.Join(c.args[1:], " "), Key: key})
		return reply(c, r.GetTask(), err, func(w io.Writer, t *controlpb.Task) error { return writef(w, "%s\n", t.Id) })
	},
		withFlag(&key, "key", "return the agent's task with this key if there is one"))
}

func newTaskList() *cobra.Command {
	var open bool
	return daemonCommand("list [AGENT]", func(ctx context.Context, c *call) error {
		answers := control.Messages(c.Tasks.List(ctx, &controlpb.ListTasksRequest{Agent: c.arg(0), Open: open}))
		return replyRows(c, answers, (*controlpb.ListTasksResponse).GetTask, "AGENT\tTASK\tSTATE\tCREATED\tTEXT", func(t *controlpb.Task) []any {
			return []any{t.Agent, shortID(t.Id), t.State, when(t.Created), fmt.Sprintf("%.100s", printable.Clip(t.Text))}
		})
	}, withFlag(&open, "open", "list only tasks that have not ended"))
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

func newTaskShow() *cobra.Command {
	return daemonCommand("show TASK", withTask(func(ctx context.Context, c *call, id string) error {
		r, err := c.Tasks.Show(ctx, &controlpb.ShowTaskRequest{Id: id})
		return reply(c, r.GetTask(), err, printTask)
	}))
}

func newTaskCancel() *cobra.Command {
	return daemonCommand("cancel TASK", withTask(func(ctx context.Context, c *call, id string) error {
		r, err := c.Tasks.Cancel(ctx, &controlpb.CancelTaskRequest{Id: id})
		return reply(c, r.GetTask(), err, func(w io.Writer, t *controlpb.Task) error { return writef(w, "%s\n", t.State) })
	}))
}

func newTaskTake() *cobra.Command {
	hold, wait := time.Minute, time.Duration(0)
	return daemonCommand("take [AGENT]", func(ctx context.Context, c *call) error {
		r, err := c.Tasks.Lease(ctx, &controlpb.LeaseTaskRequest{Agent: c.arg(0), Hold: durationpb.New(hold), Wait: durationpb.New(wait)})
		switch {
		case err != nil:
			return err
		case r.Task == nil:
			return fault.Newf(fault.NotFound, "take task", c.arg(0), "none waits").Advise("Wait for one with --wait, or see `osaurus-sandbox task list`.")
		}
		return printJSON(c.out, r)
	},
		withFlag(&hold, "hold", "the length of the lease, up to 1h"),
		withFlag(&wait, "wait", "how long to wait for a task"),
		alwaysJSON)
}

func newTaskDone() *cobra.Command {
	return daemonCommand("done TASK LEASE [WORD...]", withTask(func(ctx context.Context, c *call, id string) error {
		r, err := c.Tasks.Complete(ctx, &controlpb.CompleteTaskRequest{Id: id, Lease: c.args[1], Result: strings.Join(c.args[2:], " ")})
		return reply(c, r.GetTask(), err, nil)
	}))
}

func newTaskFail() *cobra.Command {
	var retry bool
	return daemonCommand("fail TASK LEASE [WORD...]", withTask(func(ctx context.Context, c *call, id string) error {
		r, err := c.Tasks.Fail(ctx, &controlpb.FailTaskRequest{Id: id, Lease: c.args[1], Reason: strings.Join(c.args[2:], " "), Retry: retry})
		return reply(c, r.GetTask(), err, nil)
	}),
		withFlag(&retry, "retry", "let another worker try, unless it was taken 3 times"))
}

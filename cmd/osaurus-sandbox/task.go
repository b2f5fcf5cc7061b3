package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/internal/plain"
)

func newTask(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "See and answer the tasks that agents dispatch",
		Long: `Programs of an agent dispatch tasks (osaurus-host agent dispatch) for the app that serves it. An app takes one, does it, and says
what it came to; until then it has it on lease, and if that is over somebody else may take it. A task that nobody takes for 24 hours
expires. The beginning of a task's id is enough.`,
		Example: `  osaurus-sandbox task list
  osaurus-sandbox task show 7F3A
  osaurus-sandbox task cancel 7F3A
  osaurus-sandbox task take alice --wait 10m`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newTaskAdd(c), newTaskList(c), newTaskShow(c), newTaskCancel(c), newTaskTake(c), newTaskDone(c), newTaskFail(c))
	return cmd
}

// withTask calls the daemon about the task that is meant by a beginning of its id.
func withTask(ctx context.Context, text string, do func(client *control.Client, id string) error) error {
	client, err := need(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	const whole = 36
	if len(text) == whole || text == "" {
		return do(client, text)
	}
	var found []string
	for r, err := range control.Messages(client.Tasks.List(ctx, &controlpb.ListTasksRequest{})) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(r.Task.Id, strings.ToUpper(text)) {
			found = append(found, r.Task.Id)
		}
	}
	switch len(found) {
	case 1:
		return do(client, found[0])
	case 0:
		return fault.Newf(fault.NotFound, "find task", text, "there is none whose id begins so").Advise("See `osaurus-sandbox task list`.")
	}
	return fault.Newf(fault.InvalidArgs, "find task", text, "more than one id begins so").Advise("Write more of it.")
}

func newTaskAdd(c console) *cobra.Command {
	var asJSON bool
	var key string
	cmd := &cobra.Command{
		Use:   "add AGENT WORD...",
		Short: "Dispatch a task, and print its id",
		Example: `  osaurus-sandbox task add alice Mow the lawn
  osaurus-sandbox task add alice --key chat-1 Mow the lawn`,
		Args: cobra.MinimumNArgs(2),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Tasks.Dispatch(cmd.Context(), &controlpb.DispatchTaskRequest{Agent: args[0], Text: strings.Join(args[1:], " "), Key: key})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r.Task)
			}
			_, err = writef(c.out, "%s\n", r.Task.Id)
			return err
		}),
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&key, "key", "", "a task of the agent with this key is the same task")
	return cmd
}

func newTaskList(c console) *cobra.Command {
	var asJSON, open bool
	cmd := &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the tasks of an agent, or of all, the newest first",
		Example: `  osaurus-sandbox task list
  osaurus-sandbox task list alice --open`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			table := newTable(c.out)
			if !asJSON {
				fmt.Fprintln(table, "AGENT\tTASK\tSTATE\tCREATED\tTEXT")
			}
			for r, err := range control.Messages(client.Tasks.List(cmd.Context(), &controlpb.ListTasksRequest{Agent: first(args), Open: open})) {
				switch t := r.GetTask(); {
				case err != nil:
				case asJSON:
					err = printLine(c.out, t)
				default:
					const row = 100 // of a text, enough to recognise it
					_, err = writef(table, "%s\t%.*s\t%s\t%s\t%.*s\n", t.Agent, shortID, t.Id, t.State, when(t.Created), row, plain.Clip(t.Text))
				}
				if err != nil {
					return errors.Join(err, table.Flush())
				}
			}
			return table.Flush()
		}),
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	return cmd
}

func printTask(w io.Writer, t *controlpb.Task, asJSON bool) error {
	if asJSON {
		return printProto(w, t)
	}
	until := "expires"
	if t.State == "leased" {
		until = "lease over"
	}
	rows := [][2]string{
		{"id", t.Id}, {"agent", t.Agent}, {"state", t.State}, {"source", t.Source}, {"key", t.Key}, {"created", when(t.Created)},
		{"depth", fmt.Sprint(t.Depth)}, {"leases", fmt.Sprint(t.Attempts)}, {"worker", t.Worker},
	}
	if t.Ended == nil {
		rows = append(rows, [2]string{until, when(t.Until)})
	} else {
		rows = append(rows, [2]string{"ended", when(t.Ended)})
	}
	table := newTable(w)
	for _, row := range append(rows, [2]string{"text", t.Text}, [2]string{"result", t.Result}) {
		// Only a text or a result has more lines than one.
		for i, line := range strings.Split(strings.TrimRight(row[1], "\n"), "\n") {
			if i > 0 {
				row[0] = ""
			}
			if line != "" || i > 0 {
				writef(table, "%s\t%s\n", row[0], plain.Text(line))
			}
		}
	}
	return table.Flush()
}

func newTaskShow(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task and what it came to",
		Example: `  osaurus-sandbox task show 7F3A`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTask(cmd.Context(), args[0], func(client *control.Client, id string) error {
				r, err := client.Tasks.Show(cmd.Context(), &controlpb.ShowTaskRequest{Id: id})
				if err != nil {
					return err
				}
				return printTask(c.out, r.Task, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newTaskCancel(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "cancel TASK",
		Short:   "End a task that has not ended",
		Long:    "Ends a task that has not ended. Who has taken it is told so with the next word from there. A task that has ended is left as it is.",
		Example: `  osaurus-sandbox task cancel 7F3A`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTask(cmd.Context(), args[0], func(client *control.Client, id string) error {
				r, err := client.Tasks.Cancel(cmd.Context(), &controlpb.CancelTaskRequest{Id: id})
				switch {
				case err != nil:
					return err
				case asJSON:
					return printProto(c.out, r.Task)
				}
				_, err = writef(c.out, "%s\n", r.Task.State)
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

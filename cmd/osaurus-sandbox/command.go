package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
)

// call is one run of a command.
type call struct {
	console
	*control.Client // nil before connect
	cmd             *cobra.Command
	args            []string
	json            bool // --json is set
}

// arg returns argument n, or "" if there is none.
func (c *call) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// connect connects to the daemon, and starts it with these flags if none runs. The client is
// closed when the command ends.
func (c *call) connect(ctx context.Context, flags ...string) (err error) {
	c.Client, err = need(ctx, clientName, flags...)
	return err
}

// reach connects to the daemon. It fails with Unavailable if none runs.
func (c *call) reach(ctx context.Context) (err error) {
	c.Client, err = reach(ctx, clientName)
	return err
}

// runFunc runs a command.
type runFunc func(context.Context, *call) error

// option changes a command, for example by adding a flag.
type option func(*cobra.Command)

// plainCommand returns a command without --json. Words in capitals in use are its arguments:
// see applyUse. Its help is in helpText.
func plainCommand(use string, run runFunc, options ...option) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Annotations: map[string]string{},
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Annotations[begun] = "true"
			c := &call{console: consoleOf(cmd), cmd: cmd, args: args}
			c.json, _ = cmd.Flags().GetBool("json")
			defer func() {
				if c.Client != nil {
					c.Close()
				}
			}()
			return run(cmd.Context(), c)
		},
	}
	for _, o := range options {
		o(cmd)
	}
	return cmd
}

func consoleOf(cmd *cobra.Command) console {
	return console{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()}
}

// command returns a command with --json: see reply.
func command(use string, run runFunc, options ...option) *cobra.Command {
	json := func(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print JSON") }
	return plainCommand(use, run, append([]option{json}, options...)...)
}

// daemonCommand is command for commands that need the daemon.
func daemonCommand(use string, run runFunc, options ...option) *cobra.Command {
	return command(use, func(ctx context.Context, c *call) error {
		if err := c.connect(ctx); err != nil {
			return err
		}
		return run(ctx, c)
	}, options...)
}

// noun returns a command that only has subcommands. They get the aliases that users know from other
// programs.
func noun(use string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use}
	cmd.AddCommand(commands...)
	for _, sub := range commands {
		sub.Aliases = map[string][]string{"list": {"ls"}, "delete": {"remove", "rm"}, "remove": {"delete", "rm"}}[sub.Name()]
	}
	return cmd
}

// withFlag adds a flag, whose default is the variable's value. A letter for it may follow its name,
// as in "follow, f".
func withFlag[T any](to *T, name, usage string) option {
	name, letter, _ := strings.Cut(name, ", ")
	return func(cmd *cobra.Command) {
		f := cmd.Flags()
		switch to := any(to).(type) {
		case *bool:
			f.BoolVarP(to, name, letter, *to, usage)
		case *string:
			f.StringVarP(to, name, letter, *to, usage)
		case *[]string:
			f.StringArrayVarP(to, name, letter, *to, usage)
		case *int:
			f.IntVarP(to, name, letter, *to, usage)
		case *int64:
			f.Int64VarP(to, name, letter, *to, usage)
		case *uint:
			f.UintVarP(to, name, letter, *to, usage)
		case *uint32:
			f.Uint32VarP(to, name, letter, *to, usage)
		case *time.Duration:
			f.DurationVarP(to, name, letter, *to, usage)
		default:
			panic(fmt.Sprintf("flag --%s has the type %T", name, to))
		}
	}
}

// exclusive forbids to combine flags. The names are separated by spaces.
func exclusive(flags string) option {
	return func(cmd *cobra.Command) { cmd.MarkFlagsMutuallyExclusive(strings.Fields(flags)...) }
}

// jsonUsage replaces the help of --json.
func jsonUsage(usage string) option {
	return func(cmd *cobra.Command) { cmd.Flags().Lookup("json").Usage = usage }
}

// alwaysJSON is for commands that print only JSON, so that --json is accepted everywhere.
func alwaysJSON(cmd *cobra.Command) {
	json := cmd.Flags().Lookup("json")
	json.Usage, json.DefValue = "print JSON, as it always does", "true"
	_ = json.Value.Set("true")
}

// runsCommand is for commands that run another command. Their exit codes are the other command's:
// see forSandbox.
func runsCommand(cmd *cobra.Command) { cmd.Annotations[otherCommand] = "true" }

// Annotations of commands.
const (
	otherCommand = "runs-another-command" // see runsCommand
	begun        = "begun"                // the command line was right
)

// asks makes a command ask for confirmation before it runs, unless --yes is given. In what, the words of
// its use stand for its arguments.
func asks(what, loss string) option {
	return func(cmd *cobra.Command) {
		yes := cmd.Flags().Bool("yes", false, "do not ask for confirmation")
		cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
			var pairs []string
			for i, arg := range args {
				pairs = append(pairs, placesOf(cmd.Use).at(i), arg)
			}
			return confirm(cmd.Context(), consoleOf(cmd), *yes, strings.NewReplacer(pairs...).Replace(what), loss)
		}
	}
}

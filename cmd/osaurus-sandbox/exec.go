package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

func newExec(c console) *cobra.Command {
	var asRoot bool
	var dir string
	var env []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "exec --root [flags] -- COMMAND [ARG...]",
		Short: "Run a command as root of the guest: the operator's door",
		Long: `Runs a command as root of the guest, with this terminal's input and output. It is the door of whoever operates the
sandbox, past all that keeps agents apart, and each use of it is in the audit; --root says that you mean it.

The guest is started if need be. Ctrl-C, SIGTERM and SIGHUP go to the command; the second one ends it at once. The exit code
is the command's own, 128+n if signal n ended it, 125 if the sandbox failed, 126 if the command cannot be run, 127 if there
is no such command.`,
		Example: `  osaurus-sandbox exec --root -- df -h /
  osaurus-sandbox exec --root -- sh -c 'apk add jq'`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{runsCommand: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !asRoot {
				return fault.New(fault.InvalidArgs, "run command", "", errors.New("as whom?")).Advise("Say --root: the command is then root of the guest.")
			}
			client, err := need(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			command := guest.Command{Args: args, Dir: dir, Timeout: timeout}
			if len(env) > 0 {
				command.Env = append(guest.DefaultEnv(), env...)
			}
			_, err = runCommand(cmd.Context(), c, command, func(ctx context.Context, command guest.Command) (process, error) { return client.Run(ctx, command) })
			return err
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.BoolVar(&asRoot, "root", false, "as root of the guest")
	f.StringVar(&dir, "dir", "", "the folder it runs in (default /)")
	f.StringArrayVar(&env, "env", nil, "another variable of its environment, as NAME=value")
	f.DurationVar(&timeout, "timeout", 0, "end it after this long, as in 90s")
	return cmd
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

func newExec(c console) *cobra.Command {
	var asRoot, tty, noInput bool
	var dir, session string
	var env, secrets []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "exec {AGENT | --root} [flags] -- COMMAND [ARG...]",
		Short: "Run a command as an agent, or as root of the guest",
		Long: `Runs a command as an agent, in its room, with this terminal's input and output. With --root it runs as root of the agent's
own room, to install packages there; no other agent sees any of it. With --root and no agent it runs as root of the guest: the
door of whoever operates the sandbox, past all that keeps agents apart. Each use is in the audit.

The guest is started if need be. Ctrl-C, SIGTERM and SIGHUP go to the command; the second one ends it at once. The exit code
is the command's own, 128+n if signal n ended it, 125 if the sandbox failed and it did not run, 126 if it cannot be run, 127 if there
is no such command, and 255 if it had begun and how it ended is not known: the guest or the daemon ended meanwhile. Where one
of them ends in the moment in which the command is started it is 125, and the command may have begun. With --json the command's output and its end are told in one JSON object, and the exit code is the same.

The command reads what this program is given to read, all of it: in a loop that reads lines of a file, say -n.

With --session the command runs in a shell of the agent's that stays: the next one finds the folder, variables and functions
that this one leaves. A single argument is then a line for the shell, several are words that it takes as they are. The command
reads nothing, and its output comes at its end, also after Ctrl-C: of a long one the beginning and the end. --cwd and --env count
only for a shell that is made anew; --timeout is 30s unless you say otherwise. The exit code 125 says that no answer came.`,
		Example: `  osaurus-sandbox exec alice -- sh -c 'cd src && make'
  osaurus-sandbox exec alice --session build -- 'cd src && . ./env'
  osaurus-sandbox exec alice --secret TOKEN -- ./deploy
  osaurus-sandbox exec alice --tty -- vi notes.txt
  while read -r f; do osaurus-sandbox exec alice -n -- wc "$f"; done < list
  osaurus-sandbox exec alice --root -- apk add jq
  osaurus-sandbox exec --root -- df -h /`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{runsCommand: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, asJSON := c, wantsJSON(cmd) // for this run
			agent, args, err := whose(cmd, args, asRoot)
			if err != nil {
				return err
			}
			if noInput && tty {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--tty and --no-stdin").Advise("A terminal is there to be typed on: say one of them.")
			}
			if noInput {
				c.in = nil
			}
			if tty && asJSON {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--tty and --json").Advise("A terminal's output is for a person: say one of them.")
			}
			if len(secrets) > 0 && (agent == "" || session != "") {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--secret is for a command of its own, of an agent").Advise("In a session, have the shell ask: osaurus-host secrets get " + secrets[0] + ".")
			}
			if session != "" && (tty || asRoot) {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--session goes with neither --tty nor --root").Advise("For a terminal, use: osaurus-sandbox shell AGENT --session " + session + ".")
			}
			shell := guest.Shell{Env: env, Dir: dir}
			if session != "" {
				if shell.Session, err = config.ParseSessionID(session); err != nil {
					return err
				}
			}
			client, err := need(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			if session != "" {
				return execInSession(cmd.Context(), c, client, agent, guest.ShellCommand{Shell: shell, Command: asLine(args), Timeout: timeout}, asJSON)
			}
			command := guest.Command{Args: args, Dir: dir, Env: env, Timeout: timeout, RoomRoot: asRoot && agent != ""}
			if agent == "" && len(env) > 0 {
				command.Env = append(guest.DefaultEnv(), env...)
			}
			run := showingStart(c, client, func(ctx context.Context, command guest.Command) (process, error) {
				return runAs(ctx, client, agent, secrets, command)
			})
			switch {
			case asJSON:
				return execJSON(cmd.Context(), c, command, run)
			case tty:
				return execTerminal(cmd.Context(), c, command, run)
			}
			return runForPerson(cmd.Context(), c, command, run)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asRoot, "root", false, "as root: of the agent's room, or without an agent of the guest")
	f.StringVar(&dir, "cwd", "", "the folder it runs in; relative to the default, which is the agent's home, or / for root")
	f.StringArrayVar(&env, "env", nil, "another variable of its environment, as NAME=value")
	f.StringArrayVar(&secrets, "secret", nil, "have this secret of the agent in its environment too")
	f.DurationVar(&timeout, "timeout", 0, "end it after this long, as in 90s")
	f.StringVar(&session, "session", "", "in this persistent shell of the agent's")
	_ = cmd.RegisterFlagCompletionFunc("session", completeSession)
	f.BoolVar(&tty, "tty", false, "run it on a terminal, as large as this one")
	f.BoolVarP(&noInput, "no-stdin", "n", false, "have it read nothing, and leave what this program is given to read to others")
	return jsonFlag(cmd, "print one JSON object at its end")
}

// whose tells the agent from the command: they are on either side of "--".
func whose(cmd *cobra.Command, args []string, asRoot bool) (agent string, command []string, err error) {
	wrong := func(why, advice string) (string, []string, error) {
		return "", nil, fault.New(fault.InvalidArgs, "run command", "", errors.New(why)).Advise(advice)
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0:
		return wrong("which part is the command?", "Write -- before it: osaurus-sandbox exec alice -- whoami.")
	case dash > 1:
		return wrong("more than one agent", "Write one name before the --.")
	case dash == len(args):
		return wrong("there is no command", "Write it after the --.")
	case dash == 1:
		return args[0], args[1:], nil
	case !asRoot:
		return wrong("as whom?", "Name an agent before the --, or say --root: the command is then root of the guest.")
	}
	return "", args, nil
}

func runAs(ctx context.Context, client *control.Client, agent string, secrets []string, command guest.Command) (process, error) {
	if agent == "" {
		return client.Run(ctx, command)
	}
	return client.RunLending(ctx, secrets, agent, command)
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

func newExec(c console) *cobra.Command {
	var asRoot, tty, noInput bool
	var dir, session string
	var env, secrets []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "exec {AGENT | --root} [flags] -- COMMAND [ARG...]",
		Short: "Run a command as an agent, or as root of the guest",
		Long: `Runs a command as an agent, in its room, with this terminal's input and output. With --root it runs as root of the agent's room,
to install packages there, which no other agent sees. With --root and no agent it runs as root of the guest, outside all rooms:
for administration only. Each use is in the audit.

The guest is started if it does not run. Ctrl-C, SIGTERM and SIGHUP go to the command; the second one ends it at once. The command
reads all of this program's standard input: in a loop that reads the lines of a file, say -n.

The exit code is the command's own, or 128+n if signal n ended it. It is 126 if the command cannot be run, and 127 if there is no
such command. It is 125 if the sandbox failed and the command did not run; only if the guest or the daemon ended at that very
moment may it have begun. It is 255 if the guest or the daemon ended while it ran, and nobody knows how it ended. With --json the
output and the end of the command are printed as one JSON object. A command that --timeout ended has 143, 137, or its own code.

With --session the command runs in a shell of the agent that stays: the next command finds the folder, variables and functions of
this one. A single argument is a line for that shell; several arguments are a command and its words. The command has no input. Its
output is printed when it has ended, by Ctrl-C too, and only the beginning and the end of it if it is long. --cwd and --env take
effect only if the shell is new. --timeout is 30s unless you set it. The exit code is 125 if no answer came.`,
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
				return fault.Newf(fault.InvalidArgs, "run command", "", "--tty and --no-stdin exclude each other").Advise("Say one of them: a terminal is there to be typed on.")
			}
			if noInput {
				c.in = nil
			}
			if tty && asJSON {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--tty and --json exclude each other").Advise("Say one of them: a terminal's output is for a person.")
			}
			if len(secrets) > 0 && (agent == "" || session != "") {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--secret needs an agent, and does not go with --session").Advise("In a session, have the shell ask: osaurus-host secrets get " + secrets[0] + ".")
			}
			if session != "" && (tty || asRoot) {
				return fault.Newf(fault.InvalidArgs, "run command", "", "--session goes with neither --tty nor --root").Advise("For a terminal, use: osaurus-sandbox shell AGENT --session " + session + ".")
			}
			shell := engine.Shell{Env: env, Dir: dir}
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
				return execInSession(cmd.Context(), c, client, agent, engine.ShellCommand{Shell: shell, Command: asLine(args), Timeout: timeout}, asJSON)
			}
			command := engine.Command{Args: args, Dir: dir, Env: env, Timeout: timeout, RoomRoot: asRoot && agent != ""}
			if agent == "" && len(env) > 0 {
				command.Env = append(guest.DefaultEnv(), env...)
			}
			run := showingStart(c, client, func(ctx context.Context, command engine.Command) (process, error) {
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
	f.StringVar(&session, "session", "", "run it in this persistent shell of the agent")
	_ = cmd.RegisterFlagCompletionFunc("session", completeSession)
	f.BoolVar(&tty, "tty", false, "run it on a terminal, as large as this one")
	f.BoolVarP(&noInput, "no-stdin", "n", false, "give it no input, and leave standard input unread")
	return jsonFlag(cmd, "print one JSON object at its end")
}

// whose tells the agent from the command: they are on either side of "--".
func whose(cmd *cobra.Command, args []string, asRoot bool) (agent string, command []string, err error) {
	wrong := func(why, advice string) (string, []string, error) {
		return "", nil, fault.New(fault.InvalidArgs, "run command", "", errors.New(why)).Advise(advice)
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0:
		return wrong("it is not clear which part is the command", "Write -- before it: osaurus-sandbox exec alice -- whoami.")
	case dash > 1:
		return wrong("more than one agent", "Write one name before the --.")
	case dash == len(args):
		return wrong("there is no command", "Write it after the --.")
	case dash == 1:
		return args[0], args[1:], nil
	case !asRoot:
		return wrong("no agent is named", "Name an agent before the --, or say --root: the command is then root of the guest.")
	}
	return "", args, nil
}

func runAs(ctx context.Context, client *control.Client, agent string, secrets []string, command engine.Command) (process, error) {
	if agent == "" {
		return client.Run(ctx, command)
	}
	return client.RunLending(ctx, secrets, agent, command)
}

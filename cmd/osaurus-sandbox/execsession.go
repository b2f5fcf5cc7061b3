package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/printable"
)

// asLine is a command for a shell: a single argument is the shell's to read,
// several are words that it takes as they are.
func asLine(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = printable.Quote(arg)
	}
	return strings.Join(quoted, " ")
}

// execInSession runs a command in a persistent shell and prints what came of it.
func execInSession(ctx context.Context, c console, client *control.Client, agent string, command engine.ShellCommand, asJSON bool) error {
	stop := showStart(ctx, c, client)
	result, err := runInSession(ctx, client, agent, command)
	stop()
	if err != nil {
		return err
	}
	show := printResult
	if asJSON {
		show = printResultJSON
	}
	if err := show(c, result); err != nil {
		return err
	}
	switch {
	case result.Code != 0:
		return exit{code: result.Code}
	case result.TimedOut && !asJSON:
		return exit{code: exitInterrupted + int(syscall.SIGTERM)}
	}
	return nil
}

// lastAnswer is how long an answer is waited for of a call that nobody can cancel:
// it has just ended, or has not yet come to the guest.
const lastAnswer = time.Second

// runInSession runs a command in a session. The first signal ends that command, and
// no other of the session; what it wrote until then is its answer. The second ends
// this program, and the command with it.
func runInSession(ctx context.Context, client *control.Client, agent string, command engine.ShellCommand) (engine.ShellResult, error) {
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	command.Call = config.CallID(rand.Text())
	defer context.AfterFunc(ctx, func() {
		call := &controlpb.CancelInSessionRequest{Agent: agent, Session: string(command.Session), Call: string(command.Call)}
		if _, err := client.Shells.Cancel(run, call); err != nil {
			time.AfterFunc(lastAnswer, end)
		}
	})()
	result, err := client.RunInSession(run, agent, command)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// printResult prints what a command wrote, and beside it what else there is to know.
func printResult(c console, r engine.ShellResult) error {
	if r.Restarted {
		writef(c.err, failurePrefix+"this is a new shell, without what was changed in the one before: %s\n", r.RestartCause)
	}
	for _, late := range r.Late {
		writef(c.err, failurePrefix+"written since by %s:\n%s\n", late.Command, lines(late.Output.String()))
	}
	_, outErr := io.WriteString(c.out, r.Stdout.String())
	_, errErr := io.WriteString(c.err, r.Stderr.String())
	if r.TimedOut {
		writef(c.err, timeIsOver)
	}
	return errors.Join(outErr, errErr)
}

func printResultJSON(c console, r engine.ShellResult) error {
	type late struct {
		Command string `json:"command"`
		Output  string `json:"output"`
	}
	var since []late
	for _, l := range r.Late {
		since = append(since, late{l.Command, l.Output.String()})
	}
	return printJSON(c.out, struct {
		Stdout       string  `json:"stdout"`
		Stderr       string  `json:"stderr"`
		ExitCode     int     `json:"exit_code"` // as a shell shows it
		TimedOut     bool    `json:"timed_out"`
		Cancelled    bool    `json:"cancelled"`
		Exited       bool    `json:"exited"` // the shell, with this command
		Restarted    bool    `json:"restarted"`
		RestartCause string  `json:"restart_cause,omitempty"`
		Truncated    bool    `json:"truncated"`
		Dir          string  `json:"dir"` // of the shell, afterwards
		Late         []late  `json:"late,omitempty"`
		Duration     float64 `json:"duration"` // seconds
	}{
		r.Stdout.String(), r.Stderr.String(), r.Code, r.TimedOut, r.Cancelled, r.Exited, r.Restarted, r.RestartCause,
		r.Stdout.Omitted+r.Stderr.Omitted > 0, r.Dir, since, r.Duration.Seconds(),
	})
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// execFlags are the flags of exec.
type execFlags struct {
	root, tty, noInput bool
	dir, session       string
	env, secrets       []string
	timeout            time.Duration
}

func newExec() *cobra.Command {
	var x execFlags
	return command("exec {AGENT | --root} [flags] -- COMMAND [ARG...]", func(ctx context.Context, c *call) error {
		agent, args, err := splitArgs(c, x.root)
		if err == nil && len(x.secrets) > 0 && agent == "" {
			err = fault.Newf(fault.InvalidArgs, "run command", "", "--secret needs an agent").Advise("Name the agent before the --.")
		}
		if err != nil {
			return err
		}
		return x.run(ctx, c, agent, args)
	},
		runsCommand,
		withFlag(&x.root, "root", "run as root: of the agent's room, or of the guest if no agent is named"),
		withFlag(&x.dir, "cwd", "the working directory; relative to the agent's home, or to / for root"),
		withFlag(&x.env, "env", "set an environment variable, as NAME=value"),
		withFlag(&x.secrets, "secret", "put this secret of the agent into the environment"),
		withFlag(&x.timeout, "timeout", "end the command after this long, such as 90s"),
		withFlag(&x.session, "session", "run in this persistent shell of the agent"),
		withFlag(&x.tty, "tty", "run on a terminal as large as this one"),
		withFlag(&x.noInput, "no-stdin, n", "give the command no input; leave standard input unread"),
		jsonUsage("print one JSON object when the command has ended"),
		exclusive("no-stdin tty"), exclusive("tty json"), exclusive("secret session"), exclusive("session tty"), exclusive("session root"))
}

// run runs the command line args as an agent, or as root of the guest if agent is empty.
func (x *execFlags) run(ctx context.Context, c *call, agent string, args []string) error {
	if x.noInput {
		c.in = nil
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	if x.session != "" {
		return execInSession(ctx, c, &controlpb.RunInSessionRequest{
			Agent: agent, Session: x.session, Command: asLine(args), Timeout: durationpb.New(x.timeout), Env: x.env, Dir: x.dir,
		})
	}
	command := engine.Command{Args: args, Dir: x.dir, Env: x.env, Timeout: x.timeout, RoomRoot: x.root && agent != ""}
	if agent == "" && len(x.env) > 0 {
		command.Env = append(guest.DefaultEnv(), x.env...)
	}
	run := showingStart(c, func(ctx context.Context, command engine.Command) (process, error) {
		return c.Run(ctx, control.RunAs{Agent: agent, Secrets: x.secrets}, command)
	})
	switch {
	case c.json:
		return execJSON(ctx, c.console, command, run)
	case x.tty:
		_, err := execTerminal(ctx, c.console, command, run)
		return err
	}
	return runForPerson(ctx, c.console, command, run)
}

// splitArgs separates the agent's name from the command that follows "--".
func splitArgs(c *call, asRoot bool) (agent string, command []string, err error) {
	wrong := func(why, advice string) (string, []string, error) {
		return "", nil, fault.New(fault.InvalidArgs, "run command", "", errors.New(why)).Advise(advice)
	}
	switch dash := c.cmd.ArgsLenAtDash(); {
	case dash < 0:
		return wrong(`missing "--" before the command`, "Try: osaurus-sandbox exec alice -- whoami.")
	case dash > 1:
		return wrong("more than one agent", "Write one name before the --.")
	case dash == len(c.args):
		return wrong("there is no command", "Write it after the --.")
	case dash == 1:
		return c.args[0], c.args[1:], nil
	case !asRoot:
		return wrong("no agent is named", "Name an agent before the --, or use --root to run as root of the guest.")
	}
	return "", c.args, nil
}

// maxJSONOutput bounds each stream with --json, which holds the output in memory.
const maxJSONOutput = 1 << 20

// execJSON runs a command and prints its result and output as JSON. Invalid UTF-8 is replaced.
func execJSON(ctx context.Context, c console, command engine.Command, run starter) error {
	var out, errs bytes.Buffer
	command.MaxOutput = maxJSONOutput
	began := time.Now()
	e, err := runCommand(ctx, console{c.in, &out, &errs}, command, run)
	if _, isExit := errors.AsType[exit](err); !e.ended || err != nil && !isExit {
		return err // it did not run, or its result is unknown
	}
	return errors.Join(err, printJSON(c.out, struct {
		Stdout    string  `json:"stdout"`
		Stderr    string  `json:"stderr"`
		ExitCode  int     `json:"exit_code"` // as a shell reports it
		Signal    int     `json:"signal"`
		TimedOut  bool    `json:"timed_out"`
		OOM       bool    `json:"oom"`
		PIDs      bool    `json:"pids"`
		Quota     bool    `json:"quota"`
		Truncated bool    `json:"truncated"`
		Duration  float64 `json:"duration"` // seconds
	}{
		out.String(), errs.String(), e.Status(), int(e.Signal), e.TimedOut, e.OOM, e.PIDs, e.Quota,
		e.StdoutTruncated+e.StderrTruncated > 0, time.Since(began).Seconds(),
	}))
}

// asLine returns a command line for a shell. A single argument is passed as it stands, several are
// quoted.
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

// execInSession runs a command in a persistent shell and prints its result.
func execInSession(ctx context.Context, c *call, r *controlpb.RunInSessionRequest) error {
	stop := showStart(ctx, c)
	result, err := runInSession(ctx, c.Client, r)
	stop()
	if err != nil {
		return err
	}
	show := printResult
	if c.json {
		show = printResultJSON
	}
	if err := show(c.console, result); err != nil {
		return err
	}
	switch {
	case result.Status != 0:
		return exit{code: int(result.Status)}
	case result.TimedOut && !c.json:
		return exit{code: exitInterrupted + int(syscall.SIGINT)}
	}
	return nil
}

// lastAnswer is how long to wait for the result of a command that could not be interrupted,
// because it has just ended or has not yet started.
const lastAnswer = time.Second

// runInSession runs a command in a session. The first signal interrupts this command only, and its
// output so far is the result. The second signal ends this program and the command.
func runInSession(ctx context.Context, client *control.Client, r *controlpb.RunInSessionRequest) (*controlpb.RunInSessionResponse, error) {
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r.Call = rand.Text()
	defer context.AfterFunc(ctx, func() {
		if _, err := client.Shells.Cancel(run, &controlpb.CancelInSessionRequest{Agent: r.Agent, Session: r.Session, Call: r.Call}); err != nil {
			time.AfterFunc(lastAnswer, end)
		}
	})()
	result, err := client.Shells.Run(run, r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// outputText returns the output of a command in a session.
func outputText(o *controlpb.SessionOutput) string {
	return engine.ShellOutput{Head: o.GetHead(), Omitted: o.GetOmitted(), Tail: o.GetTail()}.String()
}

// printResult prints a command's output, and warnings to standard error.
func printResult(c console, r *controlpb.RunInSessionResponse) error {
	if r.Restarted {
		writef(c.err, failurePrefix+"this is a new shell, without the changes made in the one before: %s\n", r.RestartCause)
	}
	for _, late := range r.Late {
		writef(c.err, failurePrefix+"written since by %s:\n%s\n", late.Command, lines(outputText(late.Output)))
	}
	_, outErr := io.WriteString(c.out, outputText(r.Stdout))
	_, errErr := io.WriteString(c.err, outputText(r.Stderr))
	if r.TimedOut {
		writef(c.err, timeIsOver)
	}
	return errors.Join(outErr, errErr)
}

func printResultJSON(c console, r *controlpb.RunInSessionResponse) error {
	type late struct {
		Command string `json:"command"`
		Output  string `json:"output"`
	}
	var since []late
	for _, l := range r.Late {
		since = append(since, late{l.Command, outputText(l.Output)})
	}
	return printJSON(c.out, struct {
		Stdout       string  `json:"stdout"`
		Stderr       string  `json:"stderr"`
		ExitCode     int32   `json:"exit_code"` // as a shell reports it
		TimedOut     bool    `json:"timed_out"`
		Cancelled    bool    `json:"cancelled"`
		Exited       bool    `json:"exited"` // the shell exited with this command
		Restarted    bool    `json:"restarted"`
		RestartCause string  `json:"restart_cause,omitempty"`
		Truncated    bool    `json:"truncated"`
		Dir          string  `json:"dir"` // the shell's working directory afterwards
		Late         []late  `json:"late,omitempty"`
		Duration     float64 `json:"duration"` // seconds
	}{
		outputText(r.Stdout), outputText(r.Stderr), r.Status, r.TimedOut, r.Cancelled, r.Exited, r.Restarted, r.RestartCause,
		r.Stdout.GetOmitted()+r.Stderr.GetOmitted() > 0, r.Dir, since, r.Duration.AsDuration().Seconds(),
	})
}

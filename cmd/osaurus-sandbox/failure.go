package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"osaurus-sandbox/internal/fault"
)

// Exit codes. They are part of the interface: scripts rely on them.
const (
	exitOK = 0

	// A command that runs another (boot, exec) keeps all codes but these for it, as
	// env and timeout do.
	exitSandbox     = 125 // no command ran: the sandbox failed, or was asked wrongly
	exitCannotRun   = 126 // the command is there and cannot be run
	exitNoCommand   = 127 // there is no such command
	exitInterrupted = 128 // plus the signal
	exitLost        = 255 // the sandbox failed when the command had begun: ssh has the same
)

// exitCodes is printed by help.
const exitCodes = `Exit codes:
  0 done              3 refused by a rule or check   6 something needed is not there
  1 tried and failed  4 denied by a person           7 no such thing
  2 wrong request     5 no answer in time            8 no such tool
  128+n ended by signal n, which is the usual end of forward, serve and top: 0
  141 nobody reads its output any more, as in status | head
  boot, exec, shell, job wait: the command's own, or 125 it did not run, 126 the command cannot be run, 127 no such command
  boot, exec: 255 it had begun, and how it ended is not known, for which shell and job wait have 125
  exec --timeout: 143 the time was over, 137 also if SIGTERM was ignored, or the command's own; with --session 130
`

// exitCode is the exit code for an error, from its kind alone.
func exitCode(err error) int { return fault.KindOf(err).ExitCode() }

// kindOf is the kind of fault that an exit code of this program stands for.
func kindOf(code int) fault.Kind {
	for _, kind := range fault.Kinds() {
		if kind.ExitCode() == code {
			return kind
		}
	}
	return fault.Execution
}

// How the lines begin that say why a command failed, and what to do next.
const (
	failurePrefix = "osaurus-sandbox: "
	advicePrefix  = "advice: "
)

// exit ends the program with a code of a command's own choice. Err, if there
// is one, is printed first.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// lost is why nobody knows how a command ended that had begun: whoever runs it again
// runs it twice.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// runsCommand marks, as an annotation, a command that runs another.
const runsCommand = "runs-command"

// forSandbox tells what the sandbox failed at from what the command in it
// ended with. An interruption keeps its own code.
func forSandbox(ctx context.Context, err error) error {
	_, isExit := errors.AsType[exit](err)
	_, isInterrupted := errors.AsType[interrupted](context.Cause(ctx))
	if err == nil || isExit || isInterrupted {
		return err
	}
	if _, isLost := errors.AsType[lost](err); isLost {
		return exit{exitLost, err}
	}
	return exit{exitSandbox, err}
}

// finish prints why a command failed and what to do next, and returns the
// program's exit code.
func finish(ctx context.Context, w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if readerLeft(err) {
		code, err = exitInterrupted+int(syscall.SIGPIPE), nil
	} else if e, ok := errors.AsType[exit](err); ok {
		code, err = e.code, e.err
	} else if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		// What a command says of its broken-off work is no news.
		code, err = exitInterrupted+int(i.signal), i
	}
	if err != nil {
		p := paintFor(w)
		text := strings.ReplaceAll(string(lines(err.Error())), "\n", "\n  ") // only the first line is this program's word
		writef(w, "%s%s\n", p.bad(failurePrefix), safe(text))
		if advice := fault.AdviceOf(err); advice != "" {
			writef(w, "%s%s\n", p.busy(advicePrefix), advice)
		}
	}
	return code
}

// readerLeft reports whether an error is that nobody reads the output any more. In a
// pipeline that is no failure, as of `status | head`: shells expect what SIGPIPE does.
func readerLeft(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Path == os.Stdout.Name() && errors.Is(e.Err, syscall.EPIPE)
}

// misused is the error for a command line that could not be understood: args are
// what cmd was given, without its flags.
func misused(cmd *cobra.Command, args []string, err error) error {
	advice := "See " + cmd.CommandPath() + " --help."
	if cmd.HasSubCommands() {
		if near := nearest(cmd, args); len(near) > 0 {
			advice = "Did you mean " + cmd.CommandPath() + " " + strings.Join(near, " or ") + "? " + advice
		}
	} else {
		advice = "Write " + cmd.UseLine() + ". " + advice
	}
	return fault.New(fault.InvalidArgs, "", "", err).Advise(advice)
}

// nearest are the commands below cmd that are written much like the first of args.
func nearest(cmd *cobra.Command, args []string) []string {
	const typos = 2
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = typos
	return cmd.SuggestionsFor(args[0])
}

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

// Exit codes, as in helpText. They are part of the interface: scripts rely on them.
const (
	exitOK = 0

	// Commands that run another command (boot, exec) use only these codes themselves, as env and
	// timeout do.
	exitSandbox     = 125 // no command ran: the sandbox failed, or the arguments were wrong
	exitCannotRun   = 126 // the command exists but cannot be run
	exitNoCommand   = 127 // the command does not exist
	exitInterrupted = 128 // plus the signal
	exitLost        = 255 // the sandbox failed after the command had begun, as in ssh
)

// kindOf returns the error kind for an exit code of this program.
func kindOf(code int) fault.Kind {
	for _, kind := range fault.Kinds() {
		if kind.ExitCode() == code {
			return kind
		}
	}
	return fault.Execution
}

// Prefixes of the lines that report an error and its advice.
const (
	failurePrefix = "osaurus-sandbox: "
	advicePrefix  = "advice: "
)

// exit ends the program with a specific exit code. It prints err first, if set.
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

// lost marks an error after which a command's result is unknown, so running it again may repeat
// its effects.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// forSandbox gives errors of the sandbox other exit codes than the command's own. Interruptions
// keep theirs.
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

// finish prints an error and its advice, and returns the program's exit code.
func finish(ctx context.Context, w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code := fault.KindOf(err).ExitCode()
	if readerLeft(err) {
		code, err = exitInterrupted+int(syscall.SIGPIPE), nil
	} else if e, ok := errors.AsType[exit](err); ok {
		code, err = e.code, e.err
	} else if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		// The error of interrupted work tells the user nothing new.
		code, err = exitInterrupted+int(i.signal), i
	}
	if err != nil {
		p := paintFor(w)
		if p { // a step may have failed
			fmt.Fprint(w, clearLine)
		}
		text := strings.ReplaceAll(string(lines(err.Error())), "\n", "\n  ") // indent all lines but the first, which starts with the prefix
		writef(w, "%s%s\n", p.bad(failurePrefix), safe(text))
		if advice := fault.AdviceOf(err); advice != "" {
			writef(w, "%s%s\n", p.busy(advicePrefix), advice)
		}
	}
	return code
}

// readerLeft reports whether the output's reader is gone. Pipelines such as `status | head` treat
// that as SIGPIPE, not as an error.
func readerLeft(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Path == os.Stdout.Name() && errors.Is(e.Err, syscall.EPIPE)
}

// misused returns the error for an invalid command line.
func misused(cmd *cobra.Command, err error) error {
	advice := "See " + cmd.CommandPath() + " --help."
	if !cmd.HasSubCommands() {
		advice = "Write " + cmd.UseLine() + ". " + advice
	} else if args := cmd.Flags().Args(); len(args) > 0 {
		const typos = 2
		cmd.SuggestionsMinimumDistance = typos
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			advice = "Did you mean " + cmd.CommandPath() + " " + strings.Join(near, " or ") + "? " + advice
		}
	}
	return fault.New(fault.InvalidArgs, "", "", err).Advise(advice)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// process is a command that runs in a guest.
type process interface {
	Signal(context.Context, engine.Signal) error
	Resize(engine.TerminalSize) error
	Done() <-chan struct{}
	Wait() (engine.Exit, error)
}

// starter starts a command in a guest.
type starter func(context.Context, engine.Command) (process, error)

// outcome is how a command ended.
type outcome struct {
	engine.Exit
	// ended reports whether Exit is known.
	ended bool
	// patient is false after the second signal, or one before the command ran: then the caller must
	// stop waiting.
	patient bool
}

// runCommand runs a command in the guest with the console's streams and signals. An exit code
// other than 0 is an exit error; errors after the command has begun are wrapped in lost. The first
// signal goes to the command.
func runCommand(ctx context.Context, c console, cmd engine.Command, start starter) (outcome, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endings()...)
	defer signal.Stop(signals)

	run, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	unstarted := context.AfterFunc(ctx, end)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	process, err := start(run, cmd)
	if err != nil {
		return outcome{patient: ctx.Err() == nil}, cannotRun(err)
	}
	unstarted()

	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if !first {
					end()
					return
				}
				go func() {
					// If this fails, a second signal ends the program.
					_ = process.Signal(run, engine.HostSignal(s.(syscall.Signal)))
				}()
			case <-process.Done():
				return
			}
		}
	}()
	exited, err := process.Wait()
	o := outcome{exited, err == nil, run.Err() == nil}
	switch {
	case !o.patient:
		return o, context.Cause(ctx)
	case errors.Is(err, syscall.EPIPE):
		return o, exit{code: exitInterrupted + int(syscall.SIGPIPE)} // as pipelines expect
	case err != nil:
		return o, lost{err}
	case exited.Status() != 0:
		return o, exit{code: exited.Status()}
	}
	return o, nil
}

// runForPerson is runCommand that reports a timeout by message and exit code.
func runForPerson(ctx context.Context, c console, cmd engine.Command, start starter) error {
	o, err := runCommand(ctx, c, cmd, start)
	if o.TimedOut {
		writef(c.err, timeIsOver)
		err = cmp.Or(err, error(exit{code: exitInterrupted + int(syscall.SIGTERM)}))
	}
	return err
}

// timeIsOver is printed after --timeout ended a command.
const timeIsOver = failurePrefix + "the command timed out\n" + advicePrefix + "Give it more with --timeout, or run it in the background: osaurus-sandbox job start.\n"

// cannotRun gives a command that the guest could not start the exit code of shells. Errors from
// before the guest was asked are the sandbox's own.
func cannotRun(err error) error {
	switch kind := fault.KindOf(err); {
	case !guestAsked(err):
	case kind == fault.NotFound:
		return exit{exitNoCommand, err}
	case kind == fault.Rejected:
		return exit{exitCannotRun, err}
	}
	return err
}

// guestAsked reports whether an error comes from a guest that was asked to run a command.
func guestAsked(err error) bool {
	for e, ok := errors.AsType[*fault.Error](err); ok; e, ok = errors.AsType[*fault.Error](e.Err) {
		if e.Op == engine.OpRun {
			return true
		}
	}
	return false
}

// onFirst calls a function before the first Write.
type onFirst struct {
	io.Writer
	once *sync.Once
	do   func()
}

func (w onFirst) Write(p []byte) (int, error) {
	w.once.Do(w.do)
	return w.Writer.Write(p)
}

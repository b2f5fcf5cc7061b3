// Command osaurus-sandbox boots Linux guests for AI agents on this computer, and says how they are.
package main

//go:generate go test -count=1 -run TestCommandReference . -update

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"osaurus-sandbox/engine/local"
)

// console is where a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	local.Helper() // of the UNSAFE backend, if it was started as one
	_ = noCore()   // to lower a limit is always allowed
	keepInherited()
	// A reader that went away is an error of Write, to be cleaned up after, and
	// not the sudden end that Go makes of it on standard output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, console{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// untilInterrupted returns a context that ends with the first SIGINT, SIGTERM
// or SIGHUP, so that work ends orderly. The second signal is not caught any
// more: it ends the program at once, and its machines with it.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// endings are the signals that end what runs. SIGHUP is none of them where
// nohup has had it ignored.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interrupted is why a context ended: somebody sent a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by a signal: " + i.signal.String() }

// run runs one command line and returns its exit code.
func run(ctx context.Context, c console, args []string) int {
	root := newRoot(c)
	root.SetArgs(args)
	parsed := false
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !parsed {
		err = misused(cmd, cmd.Flags().Args(), err)
	}
	if cmd.Annotations[runsCommand] != "" {
		err = forSandbox(ctx, err)
	}
	return finish(ctx, c.err, err)
}

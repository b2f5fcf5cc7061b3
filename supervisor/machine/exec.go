package machine

import (
	"context"
	"errors"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

const (
	// execLimit is how long a guest may take to start a command: a process is
	// made in milliseconds, and a slow disk may have to be read for it.
	execLimit = 15 * time.Second
	// execGrace is what a command has between SIGTERM and SIGKILL if it does
	// not say, as in guest.Command.
	execGrace = 5 * time.Second
	// endSlack is how long after that its end is waited for.
	endSlack = 5 * time.Second
)

// ErrSilent is why the context of a call to a guest ended, or why it was not made.
var ErrSilent = errors.New("the guest does not answer")

// command is a command in a guest that may fall silent or die at any moment.
type command struct {
	Process
	name  string
	asked context.Context // the caller's
	limit context.Context // ends earlier, if the guest is late
	over  <-chan struct{} // closed when the machine has ended
}

// execute starts a command. It ends for its caller whatever the guest does.
// After it has ended, release must be called.
func execute(ctx context.Context, g Guest, cmd engine.Command) (p Process, release func(), err error) {
	if len(cmd.Args) == 0 {
		return nil, nil, fault.Newf(fault.InvalidArgs, "run command", "", "there is none").Advise("Say what is to be run.")
	}
	limit, cancel := context.WithCancelCause(ctx)
	c := &command{name: cmd.Args[0], asked: ctx, limit: limit, over: g.Done()}
	late := time.AfterFunc(execLimit, func() { cancel(ErrSilent) })
	c.Process, err = g.Exec(limit, cmd)
	if !late.Stop() && err == nil {
		err = ErrSilent // its context has ended it
	}
	if err != nil {
		err = c.explain(err)
		cancel(nil)
		return nil, nil, err
	}
	if cmd.Timeout > 0 {
		grace := cmd.Grace
		if grace == 0 {
			grace = execGrace
		}
		late = time.AfterFunc(cmd.Timeout+grace+endSlack, func() { cancel(ErrSilent) })
	}
	return c, func() { late.Stop(); cancel(nil) }, nil
}

// Wait implements Process.
func (c *command) Wait() (engine.Exit, error) {
	exit, err := c.Process.Wait()
	if err != nil {
		err = c.explain(err)
	}
	return exit, err
}

// explain says what is behind the error of a connection: a guest that is
// silent, or a machine that has ended.
func (c *command) explain(err error) error {
	const op = "run command"
	switch {
	case context.Cause(c.limit) == ErrSilent:
		return fault.New(fault.Timeout, op, c.name, ErrSilent).Advise("See `osaurus-sandbox status`; a silent guest is started again by itself.")
	case c.asked.Err() != nil:
		return err
	}
	return ended(c.over, op, c.name, err)
}

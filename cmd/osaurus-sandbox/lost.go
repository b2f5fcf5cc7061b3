package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
)

// A guest hangs that answers none of so many questions, each within a time that
// even a very busy host does not make one wait.
const (
	askEvery     = 2 * time.Second
	answerWithin = 5 * time.Second
	unanswered   = 4
)

// endIfSilent ends the machine of a guest that hangs, and then sends the reason.
// When the context ends it sends nil.
func endIfSilent(ctx context.Context, g *boot.Guest) <-chan error {
	reason := make(chan error, 1)
	go func() {
		err := awaitSilence(ctx, g.Client)
		if err != nil {
			err = errors.Join(err, g.Machine.Kill(context.WithoutCancel(ctx)))
		}
		reason <- err
	}()
	return reason
}

func awaitSilence(ctx context.Context, g *guest.Client) error {
	for failed := 0; failed < unanswered; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
		ask, cancel := context.WithTimeout(ctx, answerWithin)
		err := g.Ping(ask)
		cancel()
		if fault.KindOf(err) == fault.Timeout {
			failed++
		} else { // a connection that broke ends the command by itself
			failed = 0
		}
	}
	return fault.Newf(fault.Timeout, "run command", "", "the guest has not answered for %v", unanswered*answerWithin).
		Advise("The VM was ended. If nobody has stopped QEMU, this computer may be short of memory.")
}

// lastWords is how long a machine has to end after the connection to its guest
// broke.
const lastWords = 2 * time.Second

// explain prefers the machine's own account of why a command was lost, or could not be
// started: the connection knows only that it broke.
func explain(m vm.Machine, err error) error {
	if _, isExit := errors.AsType[exit](err); isExit || err == nil {
		return err
	}
	select {
	case <-m.Done():
	case <-time.After(lastWords):
		return err
	}
	if _, isLost := errors.AsType[lost](err); isLost {
		return lost{cmp.Or(m.Err(), err)}
	}
	return cmp.Or(m.Err(), err)
}

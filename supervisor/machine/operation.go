package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

const (
	// operationLimit bounds a whole operation. Only a first provisioning over
	// a slow connection takes long; each step has limits of its own.
	operationLimit = 2 * time.Hour

	adviseStart = "Start it: `osaurus-sandbox up`."
)

// operation is a command in progress. There is at most one, so it has the
// guest and the disk to itself.
type operation struct {
	command Command
	cause   Cause
	resumes bool // a guest ran, which a Reset starts again
	silent  bool // it was silent
	unfit   bool // the last check found that this computer cannot run machines
	// work is that of an Offline, and outcome its error, which is not one of the machine.
	work    func(context.Context) error
	outcome error
	context context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // once done
}

// interrupted is why the context of an operation ended.
type interrupted struct{ by Command }

func (i interrupted) Error() string { return fmt.Sprintf("interrupted by %s", i.by) }

// do carries a command out, with the work of an Offline, and returns when it is done.
func (s *Machine) do(ctx context.Context, c Command, by Cause, work func(context.Context) error) error {
	for {
		s.mu.Lock()
		if s.closing && by != CauseClose {
			s.mu.Unlock()
			return errClosed(string(c))
		}
		changed, op := s.changed.Next(), s.op
		reply, err := answerTo(c, s.status.State), error(nil)
		switch {
		case op != nil && op.command.serves(c):
			reply = join
		case reply == refuse:
			err = s.refusal(c)
		case reply == begin:
			if err = s.mayBegin(by); err == nil {
				op, reply = s.begin(c, by, work), join
			}
		case reply == interrupt:
			op.cancel(interrupted{c})
		}
		s.mu.Unlock()
		var done chan struct{}
		enough := ctx.Done()
		switch {
		case reply == already || err != nil:
			return err
		case reply == join && work != nil:
			changed, done, enough = nil, op.done, nil // the work knows of ctx
		case reply == join:
			changed, done = nil, op.done
		}
		select {
		case <-changed:
		case <-done:
			return op.err
		case <-enough:
			return fault.Newf(fault.KindOf(ctx.Err()), string(c), "", "the sandbox is %s: %w", s.Status().State, ctx.Err()).
				Advise("It goes on in the background: see `osaurus-sandbox status`.")
		}
	}
}

// refusal returns why a command is not possible in the present state. The
// mutex is held.
func (s *Machine) refusal(c Command) error {
	advice := s.status.Advice
	if s.status.State == NotProvisioned {
		advice = "Set it up: `osaurus-sandbox up`."
	}
	text := fmt.Sprintf("the sandbox is %s", s.status.State)
	if s.status.Reason != "" {
		text += ": " + s.status.Reason
	}
	return fault.New(fault.Unavailable, string(c), "", errors.New(text)).Advise(advice)
}

func errClosed(op string) error {
	return fault.Newf(fault.Unavailable, op, "", "the daemon is stopping").Advise("Try again: the next call starts a new daemon.")
}

// begin starts an operation. The mutex is held, and there is none.
func (s *Machine) begin(c Command, by Cause, work func(context.Context) error) *operation {
	if c == Exec {
		c = Start
	}
	op := &operation{command: c, cause: by, work: work, done: make(chan struct{}), resumes: s.guest != nil, silent: s.status.State == Unresponsive}
	ctx, cancel := context.WithCancelCause(s.life)
	limited, release := context.WithTimeout(ctx, operationLimit)
	op.context, op.cancel = limited, func(cause error) { cancel(cause); release() }
	s.op, s.status.Operation = op, c
	s.set(s.firstState(c), by, nil)
	s.work.Go(func() { s.carryOut(op) })
	return op
}

// firstState returns the state in which an operation starts. The mutex is
// held.
func (s *Machine) firstState(c Command) State {
	switch state := s.status.State; {
	case c == Stop, c == Remove, s.guest != nil:
		return Stopping
	case c == Reset, c == Provision, c == Offline, state == SetupRequired, state == NotProvisioned:
		return Provisioning
	}
	return Starting
}

// carryOut runs an operation and enters the state that it leads to.
func (s *Machine) carryOut(op *operation) {
	end, err := s.steps(op)
	reason := err
	if err != nil {
		end, reason, err = s.failed(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	op.err = cmp.Or(op.outcome, err)
	s.op, s.status.Operation = nil, ""
	s.count(op, end)
	if err != nil {
		s.note(OperationFailed, op.cause, map[string]string{"detail": string(op.command) + ": " + err.Error()})
	}
	s.set(end, op.cause, reason)
	op.cancel(nil)
	close(op.done)
	if g := s.guest; end == Running {
		life, stop := context.WithCancel(s.life)
		s.work.Go(func() { s.watch(life, stop, g) })
		s.work.Go(func() { s.attend(life, g) })
		s.work.Go(func() { s.inquire(life, g) })
	}
}

// failed returns the state after a failed operation, its reason, and the error
// for callers. An interruption is no failure of the machine.
func (s *Machine) failed(op *operation, err error) (end State, reason, told error) {
	if i, ok := errors.AsType[interrupted](context.Cause(op.context)); ok {
		return s.atRest(), nil, fault.New(fault.Rejected, string(op.command), "", i).Advise("Try again when that is done.")
	}
	switch {
	case op.unfit:
		end = SetupRequired
	case op.command == Remove && !s.backend.Provisioned():
		end = NotProvisioned // a half removed sandbox does not start by itself
	default:
		end = Failed
	}
	return end, err, err
}

// atRest returns the state without a guest.
func (s *Machine) atRest() State {
	if s.backend.Provisioned() {
		return Stopped
	}
	return NotProvisioned
}

// steps carries out the steps of an operation and returns the state that it
// leads to.
func (s *Machine) steps(op *operation) (State, error) {
	if err := s.stopGuest(op); err != nil {
		return "", err
	}
	if err := s.vacate(op); err != nil {
		return "", err
	}
	switch op.command {
	case Stop:
		return s.atRest(), nil
	case Remove:
		return NotProvisioned, s.backend.Remove(op.context)
	case Offline:
		s.enter(op, Provisioning)
		if op.outcome = op.work(op.context); !op.resumes {
			return s.atRest(), nil
		}
	case Reset:
		s.enter(op, Provisioning)
		if err := s.backend.Reset(op.context); err != nil {
			return "", err
		}
		if !op.resumes {
			return Stopped, s.makeReady(op)
		}
	}
	return Running, s.startGuest(op)
}

// enter changes the state in the middle of an operation.
func (s *Machine) enter(op *operation, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State != state {
		s.set(state, op.cause, nil)
	}
}

// track starts the tracker whose steps the status shows.
func (s *Machine) track() *progress.Tracker {
	tracker := progress.NewTracker(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.touch()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker = tracker
	return tracker
}

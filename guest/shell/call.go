//go:build linux

package shell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

const (
	// maxWaiting bounds the calls that wait for a session's shell.
	maxWaiting = 32
	// promptCheck is how often to check whether a shell is back at its prompt.
	promptCheck = 10 * time.Millisecond
	// pressAgain is when to press the key again: a person's history search, for example, swallows
	// the first one. After presses attempts the shell counts as broken.
	pressAgain = 1500 * time.Millisecond
	presses    = 3
	// strayWithin is how long a shell may be away from its prompt without a person or call using
	// it, before it counts as broken.
	strayWithin = 5 * time.Second
)

// call is a command that runs, or has run, in a session's shell.
type call struct {
	id     config.CallID // empty: cannot be cancelled by id
	text   []byte
	wanted context.Context // ends when the call is cancelled or its caller has gone
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	// Guarded by the session's lock.
	streams   [2]*stream
	out, errs kept
	late      *kept // replaces them after the call's end
	began     time.Time
	lost      string // why the previous shell ended, reported by this call
	pressed   bool   // a person has pressed Ctrl-C
}

// run runs a command and registers it for cancellation.
func (s *session) run(ctx context.Context, r *guestpb.ShellRunRequest) (*guestpb.ShellRunResponse, error) {
	c := &call{id: config.CallID(r.Call), text: r.Command, done: make(chan struct{})}
	c.wanted, c.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	s.calls[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		c.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, c)
		close(c.done)
	}()
	a, err := s.perform(ctx, c, r)
	if err != nil && c.wanted.Err() != nil && ctx.Err() == nil {
		return &guestpb.ShellRunResponse{Code: int32(interrupted), Cancelled: true}, nil // it never began
	}
	return a, err
}

// perform waits for the call's turn and the prompt, starts the command and follows it to its end.
func (s *session) perform(ctx context.Context, c *call, r *guestpb.ShellRunRequest) (*guestpb.ShellRunResponse, error) {
	timeout := cmp.Or(time.Duration(r.TimeoutNanos), engine.ShellTimeout)
	wait, cancel := context.WithTimeoutCause(c.wanted, timeout, s.busy("another command"))
	defer cancel()
	if err := s.takeTurn(wait); err != nil {
		return nil, err
	}
	defer func() {
		s.use()
		s.turn <- struct{}{}
	}()
	for {
		l, err := s.shell(c.wanted, r.Shell)
		if err != nil {
			return nil, err
		}
		o, err := s.begin(wait, l, c, r.Stdin)
		if errors.Is(err, errGone) && wait.Err() == nil {
			continue
		}
		if errors.Is(err, errGone) {
			return nil, fault.New(fault.Unavailable, "use session", string(s.key.id), err).Advise("Look at its transcript: something ends its shells.")
		}
		if err != nil {
			return nil, err
		}
		return s.follow(ctx, l, o, timeout)
	}
}

// errGone reports that a shell ended, or was ended as broken, before it began a call.
var errGone = errors.New("the shell is gone")

func (s *session) busy(with string) error {
	return fault.Newf(fault.Unavailable, "use session", string(s.key.id), "%s has its terminal", with).
		Advise("Wait until it has ended, end it, or use another session.")
}

// takeTurn waits until no other call uses the shell.
func (s *session) takeTurn(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxWaiting {
		return fault.Newf(fault.Rejected, "use session", string(s.key.id), "%d commands wait for it", s.waiting).
			Advise("Wait for them to end, or use more sessions.")
	}
	s.waiting++
	s.mu.Unlock()
	var err error
	select {
	case <-s.turn:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	s.waiting--
	return err
}

// begin starts a call's command. If begin fails, the command has not begun.
func (s *session) begin(ctx context.Context, l *proc, c *call, stdin []byte) (*order, error) {
	if err := s.awaitPrompt(ctx, l); err != nil {
		return nil, err
	}
	c.out = kept{headChars: protocol.ShellHeadChars, tailChars: protocol.ShellOutputChars - protocol.ShellHeadChars}
	c.errs = c.out
	o, err := l.order(c, c.text, stdin)
	if err != nil {
		return nil, err
	}
	err = s.awaitBegin(ctx, l, o)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.spool.withdraw()
		l.listen()
		if !notify.Closed(o.begun) {
			s.call = nil
			s.lost = cmp.Or(s.lost, c.lost)
			l.forget(o)
			return nil, err
		}
	}
	return o, nil
}

// awaitPrompt waits until the shell is at its prompt.
func (s *session) awaitPrompt(ctx context.Context, l *proc) error {
	for stray := time.Now().Add(strayWithin); !l.atPrompt(); {
		s.mu.Lock()
		person := s.typed || len(s.viewers) > 0
		s.mu.Unlock()
		if !person && time.Now().After(stray) {
			l.end("it did not come back to its prompt")
		}
		select {
		case <-l.ended:
			return errGone
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return s.busy("a person's program")
			}
			return ctx.Err()
		case <-time.After(promptCheck):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.kind.editing {
		l.calm = l.term.modes()
	}
	return nil
}

// awaitBegin presses the key until the shell has begun.
func (s *session) awaitBegin(ctx context.Context, l *proc, o *order) error {
	for range presses {
		err := l.press(ctx)
		switch {
		case err != nil && ctx.Err() != nil: // the terminal's input is full
			return s.busy("something")
		case err != nil:
			return errGone
		}
		again := time.NewTimer(pressAgain)
		defer again.Stop()
	pressed:
		for {
			select {
			case <-o.begun:
				return nil
			case <-l.ended:
				return errGone
			case <-l.failed:
				l.end("an alias or a function in it has the name of a builtin that calls need")
				return errGone
			case <-ctx.Done():
				return s.busy("something")
			case <-again.C:
				if l.atPrompt() {
					break pressed
				}
				// A person's program has the terminal now.
				again.Reset(pressAgain)
			}
		}
	}
	l.end("it did not answer")
	return errGone
}

// order spools a call for the shell, or without one a question that the shell answers at its
// prompt.
func (l *proc) order(c *call, text, stdin []byte) (*order, error) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.orders == nil {
		return nil, errGone
	}
	o := &order{nonce: rand.Text(), call: c, begun: make(chan struct{}), over: make(chan struct{})}
	out, errs, err := l.spool.order(o.nonce, s.status, text, stdin)
	if err != nil {
		return nil, fault.New(fault.Execution, "use session", string(s.key.id), err)
	}
	if c == nil {
		// The shell opens them but writes nothing.
		go func() {
			select {
			case <-o.over:
			case <-l.ended:
			}
			closeAll(out, errs)
		}()
		l.orders[o.nonce] = o
		return o, nil
	}
	for i, f := range []*os.File{out, errs} {
		into := []*kept{&c.out, &c.errs}[i]
		if c.streams[i], err = newStream(f, func(b []byte) { s.take(c, into, b) }); err != nil {
			closeAll(out, errs)
			return nil, fault.New(fault.Execution, "use session", string(s.key.id), err)
		}
	}
	for _, st := range c.streams {
		go st.follow(&s.mu, l.listen)
	}
	l.orders[o.nonce] = o
	s.call = c
	c.lost, s.lost = s.lost, ""
	return o, nil
}

// forget removes an order that never began or is over; open streams stay. The caller holds the
// session's lock.
func (l *proc) forget(o *order) {
	if l.orders != nil {
		delete(l.orders, o.nonce)
		l.spool.sweep.Go(func() { l.spool.clear(o.nonce) }) // in the background
	}
	if c := o.call; c != nil && !notify.Closed(o.begun) {
		c.close()
	}
}

// forgetQuestions removes questions that a newly begun call has replaced on the spool. They get no
// answer. The caller holds the session's lock.
func (l *proc) forgetQuestions() {
	for _, o := range l.orders {
		if o.call == nil {
			close(o.over)
			l.forget(o)
		}
	}
}

// take stores and shows a command's output. The caller holds the lock.
func (s *session) take(c *call, into *kept, b []byte) {
	if c.late != nil {
		into = c.late
	}
	into.write(b)
	s.tell(b)
}

// drain reads what the call's streams hold at this moment, so that it ends even if they are
// written to forever. It calls before in between, because the shell's reports precede the call's
// output. The caller holds the session's lock.
func (c *call) drain(before func()) {
	out, errs := c.streams[0].holds(), c.streams[1].holds()
	before()
	c.streams[0].drain(out)
	c.streams[1].drain(errs)
}

func (c *call) close() {
	for _, st := range c.streams {
		st.close()
	}
}

//go:build linux

package shell

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
)

const (
	// lookEvery is how often a shell is looked at whose call runs.
	lookEvery = 50 * time.Millisecond
	// answerWithin is how long a shell that should be at its prompt may take to
	// say so.
	answerWithin = 5 * time.Second
	// grace is how long a command has after SIGINT, and after SIGTERM: most clean up within less.
	grace = 2 * time.Second
	// interrupted is $? of what SIGINT has ended.
	interrupted = 128 + int(unix.SIGINT)
)

// watch follows a call to its end. The end is usually said; but where a signal
// makes the shell give up all that it runs, nothing is left to say it. Then
// the shell is asked whether it listens: if it answers, the call is over.
type watch struct {
	proc   *proc
	order  *order
	asides int    // how often in a row the shell seemed to be at its prompt
	probe  *order // the question
	asked  time.Time
}

// outcome is what a wait for the end of a call comes to.
type outcome int

const (
	said     outcome = iota // its end, by the shell
	answered                // the shell listens, and nobody will say the end
	gone                    // the shell has ended
	late                    // none of these
)

// follow waits for the end of a call that has begun, and ends it when its time is
// over or nobody wants it any more.
func (s *session) follow(ctx context.Context, l *proc, o *order, timeout time.Duration) (*guestpb.ShellRunResponse, error) {
	c := o.call
	running, cancel := context.WithTimeout(c.wanted, timeout)
	defer cancel()
	w := &watch{proc: l, order: o}
	r := &guestpb.ShellRunResponse{}
	end := w.wait(running)
	if end == late {
		r.Cancelled = c.wanted.Err() != nil
		r.TimedOut = !r.Cancelled
		end = w.interrupt()
	}
	switch end {
	case said:
		r.Code = int32(o.status)
	case answered:
		r.Code = int32(interrupted)
	case gone:
		r.Code, r.Exited = int32(l.status), true
	}
	s.finish(w, r)
	if s.attended() {
		l.repaint(ctx)
	}
	return r, ctx.Err()
}

// wait waits for the end of the call, until it is late.
func (w *watch) wait(ctx context.Context) outcome {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var answer <-chan struct{}
		if w.probe != nil {
			answer = w.probe.over
		}
		select {
		case <-w.order.over:
			return said
		case <-answer:
			return w.unsaid(answered)
		case <-w.proc.ended:
			return w.unsaid(gone)
		case <-ctx.Done():
			return late
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// unsaid is what there is in the place of an end, unless that was said before.
func (w *watch) unsaid(instead outcome) outcome {
	if closed(w.order.over) {
		return said
	}
	return instead
}

// look asks the shell whether it listens when it seems to.
func (w *watch) look(ctx context.Context) {
	l := w.proc
	if w.asides++; !l.aside() {
		// Just before a command begins, and just after its end, the shell seems so
		// too: then it answers when the command is over.
		w.asides, w.asked = 0, time.Now()
	}
	if w.probe != nil {
		if time.Since(w.asked) > answerWithin {
			go l.end("it did not come back to its prompt")
		}
		return
	}
	if w.asides < 2 {
		return
	}
	probe, err := l.order(nil, nil, nil)
	if err != nil {
		return // it has ended, or room for files has: the next look tries again
	}
	w.probe, w.asked = probe, time.Now()
	l.settle()
	_ = l.press(ctx)
}

// interrupt ends the call: SIGINT, SIGTERM and SIGKILL to what has the terminal,
// and at last the whole shell.
func (w *watch) interrupt() outcome {
	for _, try := range []struct {
		signal unix.Signal
		within time.Duration
	}{{unix.SIGINT, grace}, {unix.SIGTERM, grace}, {unix.SIGKILL, answerWithin}} {
		w.proc.signal(try.signal)
		patience, cancel := context.WithTimeout(context.Background(), try.within)
		end := w.wait(patience)
		cancel()
		if end != late {
			return end
		}
	}
	w.proc.end("a command in it could not be ended otherwise")
	return w.unsaid(gone)
}

// settle puts the terminal's modes back as the line editor had them. A command
// that died of a signal has the shell restore those from before, and others change
// them and go.
func (l *proc) settle() {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	l.term.setModes(l.calm)
}

// finish completes the answer of a call that has ended. What it has left in the
// background writes on, into what the next call hands out.
func (s *session) finish(w *watch, r *guestpb.ShellRunResponse) {
	l, c := w.proc, w.order.call
	if !r.Exited {
		l.settle()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.drain(l.listen)
	r.Stdout, r.Stderr = c.out.output(), c.errs.output()
	r.Restarted, r.RestartCause = c.lost != "", c.lost
	r.Cancelled = r.Cancelled || c.pressed && int(r.Code) == interrupted
	r.DurationNanos, r.Dir = int64(time.Since(c.began)), []byte(l.cwd())
	r.Late = s.handOut()
	l.forget(w.order)
	s.call, s.typed, s.status = nil, false, int(r.Code)
	s.leave(c)
}

// cancelCall ends what runs, or the calls with an id, and returns when they have
// ended.
func (s *session) cancelCall(ctx context.Context, id config.CallID) error {
	s.mu.Lock()
	var chosen []*call
	for c := range s.calls {
		if id == "" && c == s.call || id != "" && c.id == id {
			chosen = append(chosen, c)
		}
	}
	s.mu.Unlock()
	if len(chosen) == 0 {
		return fault.New(fault.NotFound, "cancel command of session", string(s.key.id), errNothingRuns).Advise("It has ended already.")
	}
	for _, c := range chosen {
		c.cancel()
	}
	for _, c := range chosen {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

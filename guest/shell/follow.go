//go:build linux

package shell

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

const (
	// lookEvery is how often to check a shell that runs a call.
	lookEvery = 50 * time.Millisecond
	// answerWithin is how long a shell at its prompt may take to answer.
	answerWithin = 5 * time.Second
	// grace is how long a command has after SIGINT and again after SIGTERM.
	grace = 2 * time.Second
	// interrupted is the exit status after SIGINT.
	interrupted = 128 + int(unix.SIGINT)
)

// watch waits for a call's end. The shell usually reports it, but a signal can make it drop all
// that it runs, including the report. Then watch asks a question; an answer means that the call is
// over.
type watch struct {
	proc   *proc
	order  *order
	asides int    // consecutive times that the shell seemed to be at its prompt
	probe  *order // the question
	asked  time.Time
}

// outcome is the result of waiting for a call's end.
type outcome int

const (
	said     outcome = iota // the shell reported the end
	answered                // the shell answered a question instead
	gone                    // the shell has ended
	late                    // none of these
)

// follow waits for the end of a call, ending it on timeout or cancellation.
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

// wait waits for the end of the call or of the context.
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

// unsaid returns instead, unless the shell has reported the end.
func (w *watch) unsaid(instead outcome) outcome {
	if notify.Closed(w.order.over) {
		return said
	}
	return instead
}

// look asks the shell a question if it seems to be at its prompt.
func (w *watch) look(ctx context.Context) {
	l := w.proc
	if w.asides++; !l.aside() {
		// The shell also seems so just before and after a command. It then answers when the
		// command is over.
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
		return // it has ended, or there is no space; the next look tries again
	}
	w.probe, w.asked = probe, time.Now()
	l.settle()
	_ = l.press(ctx)
}

// interrupt sends SIGINT, SIGTERM and SIGKILL to the foreground group, and finally ends the shell.
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

// settle restores the terminal modes of the line editor, which commands may have changed.
func (l *proc) settle() {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	l.term.setModes(l.calm)
}

// finish completes the response of an ended call. The next call returns later output of its
// background processes.
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

// cancelCall ends the running call, or the calls with an id, and waits for their end.
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
		return fault.Newf(fault.NotFound, "cancel command of session", string(s.key.id), "no command runs in it").Advise("It has ended already.")
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

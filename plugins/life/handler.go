package life

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// Environment of a handler. The payload is its standard input.
const (
	envTopic  = "OSAURUS_EVENT_TYPE"
	envSource = "OSAURUS_EVENT_SOURCE"
	envSeq    = "OSAURUS_EVENT_SEQ"
	envTime   = "OSAURUS_EVENT_TIME"
)

// maxErrors is how much of the output of a failed handler is logged, in bytes.
const maxErrors = 4 << 10

// listen runs the plugin's handlers for events, one at a time and in order, until the context ends.
// The next events wait in the journal. If it drops some, that is logged.
func (p *plugin) listen(ctx context.Context) {
	after := unknown
	for {
		var err error
		after, err = p.hear(ctx, after)
		if ctx.Err() != nil {
			return
		}
		p.log(ctx, bridge.Error, fmt.Sprintf("events cannot be read for the moment: %v", err))
		pause(ctx, askAgain, nil)
	}
}

// unknown stands for the number of the newest event before it has been read. A plugin receives
// only events that are newer.
const unknown bridge.EventSeq = -1

// hear handles events after a number until there is an error, and returns the number of the last one.
func (p *plugin) hear(ctx context.Context, after bridge.EventSeq) (bridge.EventSeq, error) {
	if after == unknown {
		last, err := p.of.Events.Last(ctx)
		if err != nil {
			return unknown, err
		}
		after = last
		close(p.hears)
	}
	for e, err := range p.of.Events.Read(ctx, bridge.EventFilter{Agent: p.who().ID, After: after, Topics: p.topics()}, true) {
		if err != nil {
			return after, err
		}
		if e.Gap != nil {
			p.log(ctx, bridge.Warn, fmt.Sprintf("up to %d events were lost: they arrived faster than they were handled", e.Gap.To-e.Gap.From+1))
		}
		for _, s := range p.recipe.Events.Subscribe {
			if e.Gap == nil && s.Run != "" && s.Topic.Holds(e.Topic) {
				p.handle(ctx, s, e)
			}
		}
		after = e.Seq
	}
	return after, ctx.Err()
}

// topics returns the topics that have a handler.
func (p *plugin) topics() (list []bridge.Topics) {
	for _, s := range p.recipe.Events.Subscribe {
		if s.Run != "" {
			list = append(list, s.Topic)
		}
	}
	return list
}

// handle runs one handler for one event. It waits if no guest runs, or if the guest cannot run
// anything at the moment.
func (p *plugin) handle(ctx context.Context, s plugins.Subscription, e bridge.Event) {
	var waits backoff
	for {
		begun, boot := p.begun.Next(), p.of.Boot()
		err := p.attempt(ctx, s, e)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !passing(err):
			p.log(ctx, bridge.Error, fmt.Sprintf("the handler of %s: %v", e.Topic, err))
			return
		case p.gone(boot):
			select {
			case <-begun:
			case <-ctx.Done():
			}
		default:
			p.wait(ctx, &waits, begun, fmt.Sprintf("the handler of %s waits", e.Topic), err)
		}
	}
}

func (p *plugin) attempt(ctx context.Context, s plugins.Subscription, e bridge.Event) error {
	cmd, err := p.command(ctx, s.Run, []string{
		envTopic + "=" + string(e.Topic), envSource + "=" + e.Source, fmt.Sprintf("%s=%d", envSeq, e.Seq), envTime + "=" + e.Time.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(e.Payload), &out, &out
	cmd.Timeout, cmd.MaxOutput = s.Limit(), maxErrors
	running, err := p.room().Exec(ctx, cmd)
	if err != nil {
		return err
	}
	exit, err := running.Wait()
	switch {
	case fault.KindOf(err) == fault.Timeout: // not again: it may be the reason why the guest does not answer
		return fmt.Errorf("its result is unknown: %v", err)
	case err != nil:
		return err
	case exit.TimedOut:
		return fmt.Errorf("it did not finish within %v", s.Limit())
	case exit.Status() != 0:
		return fmt.Errorf("it ended with status %d and wrote %s", exit.Status(), bytes.ToValidUTF8(bytes.TrimSpace(out.Bytes()), []byte("\uFFFD")))
	}
	return nil
}

const (
	// askAgain is the first pause before another attempt. It doubles each time, up to askSeldom:
	// a keyring may be locked for hours.
	askAgain  = time.Second
	askSeldom = time.Minute
)

// backoff is the state between attempts of something that fails for the time being.
type backoff struct {
	logged string        // the last reason
	pause  time.Duration // before the next attempt
}

// passing reports whether the same may succeed later: the guest does not answer, the
// room is at a limit, the secrets are locked.
func passing(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.Unavailable || kind == fault.Timeout || kind == fault.Rejected
}

// gone reports whether the guest of a boot has ended, or there was none.
func (p *plugin) gone(boot string) bool { return boot == "" || p.of.Boot() != boot }

// wait logs why something fails, unless the last entry said so, and returns after a pause or
// when now is closed.
func (p *plugin) wait(ctx context.Context, b *backoff, now <-chan struct{}, what string, err error) {
	if why := err.Error(); why != b.logged {
		b.logged = why
		p.log(ctx, bridge.Warn, what+": "+why)
	}
	b.pause = min(max(2*b.pause, askAgain), askSeldom)
	pause(ctx, b.pause, now)
}

// pause returns after a time, or when now is closed or the context ends.
func pause(ctx context.Context, d time.Duration, now <-chan struct{}) {
	select {
	case <-now:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

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

// What a handler is told beside the payload, which is its standard input.
const (
	envTopic  = "OSAURUS_EVENT_TYPE"
	envSource = "OSAURUS_EVENT_SOURCE"
	envSeq    = "OSAURUS_EVENT_SEQ"
	envTime   = "OSAURUS_EVENT_TIME"
)

// maxErrors is how much of what a handler writes is logged when it fails.
const maxErrors = 4 << 10

// listen runs the plugin's handlers for what is told, one at a time and in the order in
// which it was told, for as long as the context lives. Whatever comes meanwhile waits in
// the journal of events, which keeps so many: who falls further behind is told so.
func (p *plugin) listen(ctx context.Context) {
	after := unknown
	for {
		var err error
		after, err = p.hear(ctx, after)
		if ctx.Err() != nil {
			return
		}
		p.log(ctx, bridge.Error, fmt.Sprintf("events are not heard for a moment: %v", err))
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
		}
	}
}

// unknown is the number after which a plugin hears events before it is known which is the
// newest: what was told before the plugin was there does not concern it.
const unknown Seq = -1

// hear handles events after a number until there is an error, and says after which one to
// go on.
func (p *plugin) hear(ctx context.Context, after Seq) (Seq, error) {
	if after == unknown {
		last, err := p.of.Events.Last(ctx)
		if err != nil {
			return unknown, err
		}
		after = last
		close(p.hears)
	}
	for e, err := range p.of.Events.Follow(ctx, p.who().ID, after, p.topics()) {
		if err != nil {
			return after, err
		}
		if e.Lost > 0 {
			p.log(ctx, bridge.Warn, fmt.Sprintf("%d events or less were not heard: they were told faster than they were handled", e.Lost))
		}
		for _, s := range p.recipe.Events.Subscribe {
			if e.Lost == 0 && s.Run != "" && s.Topic.Holds(e.Topic) {
				p.handle(ctx, s, e)
			}
		}
		after = e.Seq
	}
	return after, ctx.Err()
}

// topics are those that somebody hears.
func (p *plugin) topics() (list []plugins.Topics) {
	for _, s := range p.recipe.Events.Subscribe {
		if s.Run != "" {
			list = append(list, s.Topic)
		}
	}
	return list
}

// handle runs one handler for one event. Without a guest it waits for the next, and where
// one cannot run anything at the moment, until it can.
func (p *plugin) handle(ctx context.Context, s plugins.Subscription, e Heard) {
	var h hitch
	for {
		begun, boot := p.begun.Next(), p.of.Rooms.Boot()
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
			p.sit(ctx, &h, begun, fmt.Sprintf("the handler of %s waits", e.Topic), err)
		}
	}
}

func (p *plugin) attempt(ctx context.Context, s plugins.Subscription, e Heard) error {
	cmd, err := p.command(ctx, s.Run, []string{
		envTopic + "=" + string(e.Topic), envSource + "=" + e.Source, fmt.Sprintf("%s=%d", envSeq, e.Seq), envTime + "=" + e.Time.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(e.Payload), &out, &out
	cmd.Timeout, cmd.MaxOutput = s.Limit(), maxErrors
	running, err := p.of.Rooms.Room(p.who()).Exec(ctx, cmd)
	if err != nil {
		return err
	}
	exit, err := running.Wait()
	switch {
	case fault.KindOf(err) == fault.Timeout: // it ran, and may be what keeps the guest from answering
		return fmt.Errorf("nobody knows how it ended: %v", err)
	case err != nil:
		return err
	case exit.TimedOut:
		return fmt.Errorf("it was not done after %v", s.Limit())
	case exit.Status() != 0:
		return fmt.Errorf("it ended with status %d and wrote %s", exit.Status(), bytes.ToValidUTF8(bytes.TrimSpace(out.Bytes()), []byte("\uFFFD")))
	}
	return nil
}

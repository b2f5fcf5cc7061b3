package checkpoints

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
)

// Running is a call that has begun.
type Running struct {
	of      *Checkpoints
	call    Call
	row     sync.WaitGroup // the row is being written
	warning string
}

// maxSummary is how many characters of a call are shown.
const maxSummary = 100

// Summary returns the beginning of a text on one line, for Begin.
func Summary(text string) string { return printable.Line(text, maxSummary) }

// Begin makes the checkpoints before a call. The caller must call End. If a checkpoint fails, the call
// runs without it. The call's row is written while it runs.
func (c *Checkpoints) Begin(ctx context.Context, agent agents.Agent, tool, summary string) *Running {
	if !c.Settings().Enabled {
		return &Running{}
	}
	r := &Running{of: c, call: Call{Agent: agent.ID, Began: time.Now(), Tool: tool, Summary: summary}}
	limited, cancel := context.WithTimeout(ctx, beforeLimit)
	defer cancel()
	give, err := c.take(limited, agent.ID)
	if err != nil {
		r.lacks(err)
		return r
	}
	if r.call.before, err = c.snapshot(limited, agent); err != nil {
		r.lacks(err)
	}
	r.row.Go(func() {
		defer give()
		if err := c.record(context.WithoutCancel(ctx), agent.ID, r.call.before, &r.call); err != nil {
			r.call.Number = 0 // it has no row
			r.lacks(err)
		}
	})
	return r
}

// lacks notes that the call cannot be undone.
func (r *Running) lacks(err error) {
	r.warning = "there is no checkpoint of the home folder, so this call cannot be undone"
	r.of.Log.Warn("a call has no checkpoint", "agent", r.call.Agent, "tool", r.call.Tool, "error", err)
}

// End ends a call, once. Its outcome is a fault.Kind, or "ok". The warning, if any, says that it cannot be
// undone.
func (r *Running) End(outcome string) (warning string) {
	if r.row.Wait(); r.call.Number != 0 {
		r.call.Outcome = outcome
		r.of.ended(r.call)
		r.call.Number = 0
	}
	return r.warning
}

// ended notes that a call has ended. The checkpoint after it is made a moment later, by the next call, or
// when somebody asks.
func (c *Checkpoints) ended(call Call) {
	s := c.state(call.Agent)
	c.mu.Lock()
	delete(s.running, call.Number)
	call.Ended = time.Now()
	s.ended = append(s.ended, call)
	c.mu.Unlock()
	settle := func() {
		select {
		case <-c.life.Done(): // now, then
		case <-time.After(afterDelay):
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), afterLimit)
		defer cancel()
		if err := c.settle(ctx, call.Agent); err != nil {
			c.Log.Warn("a call has no checkpoint after it", "agent", call.Agent, "tool", call.Tool, "error", err)
		}
		c.prune(false)
	}
	if !c.background(settle) { // the daemon may not wait for all of it
		call.Changed = true // for all that is known
		if err := c.put(context.WithoutCancel(c.life), &call); err != nil {
			c.Log.Warn("the end of a call is not known", "agent", call.Agent, "tool", call.Tool, "error", err)
		}
		settle()
	}
}

// settle makes the checkpoints after the calls that have ended.
func (c *Checkpoints) settle(ctx context.Context, id config.AgentID) error {
	give, err := c.take(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	s := c.state(id)
	c.mu.Lock()
	waiting := len(s.ended)
	c.mu.Unlock()
	agent, gone := c.Agents.Get(string(id))
	if waiting == 0 || gone != nil { // with its rows
		return nil
	}
	_, err = c.now(ctx, agent)
	return err
}

// now makes checkpoints and records them. The caller has the turn.
func (c *Checkpoints) now(ctx context.Context, agent agents.Agent) (trees, error) {
	now, missing := c.snapshot(ctx, agent)
	if ctx.Err() != nil {
		return nil, fault.Wrap("make checkpoint", string(agent.Name), ctx.Err()) // a later one will do
	}
	return now, cmp.Or(c.record(ctx, agent.ID, now, nil), missing)
}

// record writes the rows of calls that have ended, of what changed between calls, and of a call that
// begins, if any. The caller has the turn.
func (c *Checkpoints) record(ctx context.Context, id config.AgentID, now trees, begins *Call) error {
	s := c.state(id)
	c.mu.Lock()
	ended, idle := slices.Clone(s.ended), len(s.running) == 0
	c.mu.Unlock()
	var rows []*Call
	for i := range ended {
		call := &ended[i]
		call.after, call.Changed = now, call.before == nil || now == nil || c.differ(ctx, call.before, now)
		rows = append(rows, call)
	}
	if len(ended) == 0 && idle && s.last != nil && now != nil && c.differ(ctx, s.last, now) {
		moment := time.Now()
		rows = append(rows, &Call{Agent: id, Began: moment, Ended: moment, Outcome: "ok", Changed: true, before: s.last, after: now})
	}
	if begins != nil {
		rows = append(rows, begins)
	}
	if err := c.put(ctx, rows...); err != nil {
		return err
	}
	s.last = now
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ended = s.ended[len(ended):]
	if begins != nil {
		s.running[begins.Number] = begins.Tool
	}
	return nil
}

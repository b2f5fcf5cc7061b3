package checkpoints

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
)

// Running is a call that has begun.
type Running struct {
	of   *Checkpoints // nil without history
	call Call
	// Warning says that the call cannot be undone. It may be empty, and is complete after End.
	Warning string

	written chan struct{} // closed when the row is written, or failed
	failed  error
}

// maxSummary is how many characters of a call are shown.
const maxSummary = 100

// Summary returns the beginning of a text on one line, for Begin.
func Summary(text string) string { return printable.Line(text, maxSummary) }

// Begin makes the checkpoints before a call, which must End. If that fails, the call runs without.
func (c *Checkpoints) Begin(ctx context.Context, agent agents.Agent, tool, summary string) *Running {
	if !c.Settings().Enabled {
		return &Running{}
	}
	r := &Running{of: c, call: Call{Agent: agent.ID, Began: time.Now(), Tool: tool, Summary: summary}, written: make(chan struct{})}
	limited, cancel := context.WithTimeout(ctx, beforeLimit)
	defer cancel()
	if err := c.begin(limited, agent, r); err != nil {
		r.lacks(err)
	}
	return r
}

// lacks notes that the call cannot be undone.
func (r *Running) lacks(err error) {
	r.Warning = "there is no checkpoint of the home folder, so this call cannot be undone"
	r.of.Log.Warn("a call has no checkpoint", "agent", r.call.Agent, "tool", r.call.Tool, "error", err)
}

// begin makes the checkpoints before a call. Its row is written while it runs, also without them.
func (c *Checkpoints) begin(ctx context.Context, agent agents.Agent, r *Running) error {
	give, err := c.take(ctx, agent.ID)
	if err != nil {
		close(r.written)
		return err
	}
	c.referring.RLock()
	now, missing := c.snapshot(ctx, agent)
	if r.call.before = now; missing != nil {
		r.call.Trouble = "no checkpoint before it: " + missing.Error()
	}
	ctx = context.WithoutCancel(ctx)
	go func() { // End waits for it
		defer close(r.written)
		defer give()
		defer c.referring.RUnlock()
		if r.failed = c.settled(ctx, agent.ID, now, missing, &r.call); r.failed == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.states[agent.ID].running[r.call.Number] = r.call.Tool
		}
	}()
	return missing
}

// End ends a call. Its outcome is a fault.Kind, or "ok".
func (r *Running) End(outcome string) {
	if r.of == nil {
		return
	}
	if <-r.written; r.failed != nil {
		r.lacks(r.failed)
	}
	if r.call.Number == 0 {
		return
	}
	c, call := r.of, r.call
	call.Outcome, call.Ended = outcome, time.Now()
	s := c.state(call.Agent)
	c.mu.Lock()
	delete(s.running, call.Number)
	s.ended = append(s.ended, call)
	c.mu.Unlock()
	if c.life.Err() != nil {
		return // Close makes it, or the next Open
	}
	c.work.Go(func() {
		select {
		case <-c.life.Done():
			return
		case <-time.After(afterDelay):
		}
		ctx, cancel := context.WithTimeout(c.life, afterLimit)
		defer cancel()
		if err := c.settle(ctx, call.Agent); err != nil && c.life.Err() == nil {
			c.Log.Warn("a call has no checkpoint after it", "agent", call.Agent, "tool", call.Tool, "error", err)
		}
		c.keepBudget()
	})
}

// settle makes the checkpoints after the calls that have ended.
func (c *Checkpoints) settle(ctx context.Context, id config.AgentID) error {
	give, err := c.take(ctx, id)
	if err != nil {
		return err
	}
	defer give()
	if c.endedOf(id) == 0 {
		return nil
	}
	agent, err := c.Agents.Get(string(id))
	if err != nil {
		return nil // its rows are gone too
	}
	_, err = c.now(ctx, agent)
	return err
}

// now makes checkpoints and settles the calls that have ended. The caller has the turn.
func (c *Checkpoints) now(ctx context.Context, agent agents.Agent) (trees, error) {
	c.referring.RLock()
	defer c.referring.RUnlock()
	now, missing := c.snapshot(ctx, agent)
	if ctx.Err() != nil {
		return nil, fault.Wrap("make checkpoint", string(agent.Name), ctx.Err()) // a later one will do
	}
	if err := c.settled(ctx, agent.ID, now, missing, nil); err != nil {
		return nil, err
	}
	return now, missing
}

func (c *Checkpoints) endedOf(id config.AgentID) int {
	s := c.state(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(s.ended)
}

// settled gives the calls that have ended the trees after them, and notes what changed between calls.
// It also writes the row of a call that begins, if any. The caller has the turn.
func (c *Checkpoints) settled(ctx context.Context, id config.AgentID, now trees, missing error, begins *Call) error {
	s := c.state(id)
	c.mu.Lock()
	ended, busy := s.ended, len(s.running) > 0
	c.mu.Unlock()
	var list []*Call
	for i := range ended {
		call := ended[i] // a copy: it stays as it was if it cannot be written
		call.after = now
		if call.Ended.IsZero() {
			call.Ended = time.Now()
		}
		if missing != nil && call.Trouble == "" {
			call.Trouble = "no checkpoint after it: " + missing.Error()
		}
		call.Changed = call.before != nil && (now == nil || c.differ(ctx, call.before, now))
		list = append(list, &call)
	}
	if s.last == nil && !busy { // this daemon has just begun, or had no checkpoint
		last, err := c.rows.list(ctx, id, 1, "after != ''")
		if err != nil {
			return err
		}
		if len(last) > 0 {
			s.last = last[0].after
		}
	}
	if len(ended) == 0 && !busy && s.last != nil && now != nil && c.differ(ctx, s.last, now) {
		moment := time.Now()
		list = append(list, &Call{Agent: id, Began: moment, Ended: moment, Outcome: "ok", Changed: true, before: s.last, after: now})
	}
	settled := len(list)
	if begins != nil {
		list = append(list, begins)
	}
	if len(list) > 0 {
		if err := c.rows.put(ctx, list...); err != nil {
			return err
		}
	}
	s.last = now
	c.mu.Lock()
	s.ended = s.ended[len(ended):]
	c.mu.Unlock()
	if settled > 0 && c.life.Err() == nil {
		c.work.Go(func() {
			for _, call := range list[:settled] {
				if _, err := c.counted(c.life, *call); err != nil && c.life.Err() == nil {
					c.Log.Warn("what a call changed is not counted", "agent", id, "call", call.Number, "error", err)
				}
			}
		})
	}
	return nil
}

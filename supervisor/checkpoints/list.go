package checkpoints

import (
	"context"
	"iter"
	"maps"
	"slices"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

// maxCompared bounds the files of a call whose lines are counted.
const maxCompared = 1000

// Change is a change of a file in one of an agent's roots.
type Change struct {
	Root string
	history.Change
}

// changes yields the changes from some trees to others.
func (c *Checkpoints) changes(ctx context.Context, from, to trees, paths ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for _, root := range slices.Sorted(maps.Keys(to)) {
			before, ok := from[root]
			if !ok || before == to[root] { // a root that is new has no changes
				continue
			}
			for change, err := range c.History.Diff(ctx, before, to[root], paths...) {
				if !yield(Change{root, change}, err) || err != nil {
					return
				}
			}
		}
	}
}

// differ reports whether there is any change, or it cannot be told.
func (c *Checkpoints) differ(ctx context.Context, from, to trees) bool {
	for range c.changes(ctx, from, to) {
		return true
	}
	return false
}

// List returns an agent's calls, newest first.
func (c *Checkpoints) List(ctx context.Context, agent agents.Agent, limit int) ([]Call, error) {
	if err := c.settle(ctx, agent.ID); err != nil {
		c.Log.Warn("the last call has no checkpoint after it yet", "agent", agent.Name, "error", err)
	}
	list, err := c.rows.list(ctx, agent.ID, limit, "TRUE")
	for i := range list {
		if err == nil {
			list[i], err = c.counted(ctx, list[i])
		}
	}
	return list, err
}

// counted counts what a call changed, unless that is done or cannot be.
func (c *Checkpoints) counted(ctx context.Context, call Call) (Call, error) {
	if call.Counted || !call.Changed || call.before == nil || call.after == nil {
		return call, nil
	}
	n, compared := Counts{}, 0
	for change, err := range c.changes(ctx, call.before, call.after) {
		if err != nil {
			return call, err
		}
		if change.Before.Kind == history.Folder || change.Before.Kind == 0 && change.After.Kind == history.Folder {
			continue
		}
		switch change.What {
		case history.Added:
			n.Added++
		case history.Removed:
			n.Removed++
		default:
			n.Modified++
		}
		if compared++; compared <= maxCompared && change.What != history.Mode {
			lines, err := c.History.Lines(ctx, change.Change)
			if err != nil {
				return call, err
			}
			n.LinesAdded, n.LinesRemoved = n.LinesAdded+lines.Added, n.LinesRemoved+lines.Removed
		}
	}
	call.Counts, call.Counted = n, true
	_, err := c.DB.Exec(ctx, "write history", "UPDATE history SET counted = 1, added = ?, modified = ?, removed = ?, lines_added = ?, lines_removed = ? WHERE agent = ? AND call = ?",
		n.Added, n.Modified, n.Removed, n.LinesAdded, n.LinesRemoved, call.Agent, call.Number)
	return call, err
}

// Range names calls to compare: from before the first to after the last. First 0 is the last call that
// changed something. Last 0 is First, and Now the folders as they are.
type Range struct{ First, Last int64 }

// Now is the end of a Range that ends with the folders as they are.
const Now = -1

// Diff yields what calls changed, at or below paths if there are any. The paths are of the room.
func (c *Checkpoints) Diff(ctx context.Context, agent agents.Agent, r Range, paths []string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		from, to, err := c.ends(ctx, agent, r)
		if err == nil {
			paths, err = within(agent, paths)
		}
		if err != nil {
			yield(Change{}, err)
			return
		}
		c.changes(ctx, from, to, paths...)(yield)
	}
}

// ends returns the trees at the ends of a range.
func (c *Checkpoints) ends(ctx context.Context, agent agents.Agent, r Range) (from, to trees, err error) {
	give, err := c.take(ctx, agent.ID)
	if err != nil {
		return nil, nil, err
	}
	defer give()
	now, err := c.now(ctx, agent)
	if err != nil && r.Last == Now {
		return nil, nil, err
	}
	first, err := c.pick(ctx, agent, r.First, "changed")
	if err != nil {
		return nil, nil, err
	}
	last := first
	if r.Last > 0 {
		if last, err = c.pick(ctx, agent, r.Last, ""); err != nil {
			return nil, nil, err
		}
	}
	if from, to = first.before, last.after; r.Last == Now {
		to = now
	}
	switch {
	case from == nil:
		return nil, nil, lacks(first, "before")
	case to == nil:
		return nil, nil, lacks(last, "after")
	}
	return from, to, nil
}

// pick returns a call by its number, or for 0 the last one for which a condition holds.
func (c *Checkpoints) pick(ctx context.Context, agent agents.Agent, number int64, where string) (Call, error) {
	if number != 0 {
		return c.rows.get(ctx, agent.ID, number)
	}
	list, err := c.rows.list(ctx, agent.ID, 1, where)
	if err == nil && len(list) == 0 {
		err = fault.Newf(fault.NotFound, "find call", string(agent.Name), "no call is left to choose").Advise("See its calls: osaurus-sandbox history " + string(agent.Name))
	}
	if err != nil {
		return Call{}, err
	}
	return list[0], nil
}

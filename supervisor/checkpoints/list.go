package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/store"
)

// maxCompared bounds the files of a call whose lines are counted.
const maxCompared = 1000

// changes yields the changes from some trees to others. The paths are relative to the home, or those of a mount in
// the room.
func (c *Checkpoints) changes(ctx context.Context, from, to trees, of selection) iter.Seq2[history.Change, error] {
	return func(yield func(history.Change, error) bool) {
		for _, root := range slices.Sorted(maps.Keys(to)) {
			before, ok := from[root]
			paths, selected := of.has(root)
			if !ok || before == to[root] || !selected { // a root that is new has no changes
				continue
			}
			for change, err := range c.History.Diff(ctx, before, to[root], paths...) {
				shown, changed := c.shown(ctx, root, change)
				if (changed || err != nil) && (!yield(shown, err) || err != nil) {
					return
				}
			}
		}
	}
}

// shown returns a change in a root as people see it, or false if they see none.
func (c *Checkpoints) shown(ctx context.Context, root string, change history.Change) (history.Change, bool) {
	at, key, mount := strings.Cut(root, mountMark)
	if !mount {
		return change, true
	}
	change, changed := review.Shown(ctx, c.History, key, change)
	change.Path = at + "/" + change.Path
	return change, changed
}

// differ reports whether there is any change. If that is unknown, it returns
// true.
func (c *Checkpoints) differ(ctx context.Context, from, to trees) bool {
	for range c.changes(ctx, from, to, nil) {
		return true
	}
	return false
}

// List returns an agent's calls, newest first.
func (c *Checkpoints) List(ctx context.Context, agent agents.Agent, limit int) ([]Call, error) {
	if err := c.settle(ctx, agent.ID); err != nil {
		c.Log.Warn("the last call has no checkpoint after it yet", "agent", agent.Name, "error", err)
	}
	list, err := c.calls(ctx, "agent = ? ORDER BY call DESC LIMIT ?", agent.ID, limit)
	for i := range list {
		if err := c.count(ctx, &list[i]); err != nil {
			c.Log.Warn("what a call changed is not counted", "agent", agent.Name, "call", list[i].Number, "error", err)
		}
	}
	return list, err
}

// count counts what a call changed, once.
func (c *Checkpoints) count(ctx context.Context, call *Call) error {
	if call.Counts != nil || !call.Undoable() {
		return nil
	}
	n, compared := &Counts{}, 0
	for change, err := range c.changes(ctx, call.before, call.after, nil) {
		if err != nil {
			return err
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
			lines, err := c.History.Lines(ctx, change)
			if err != nil {
				return err
			}
			n.LinesAdded, n.LinesRemoved = n.LinesAdded+lines.Added, n.LinesRemoved+lines.Removed
		}
	}
	call.Counts = n
	_, err := c.DB.Exec(ctx, opWrite, "UPDATE history SET counts = ? WHERE agent = ? AND call = ?", store.JSON(n), call.Agent, call.Number)
	return err
}

// Range names calls to compare: from before the first to after the last. First 0 is the last call that
// changed something. Last 0 is First, and Now the folders as they are.
type Range struct{ First, Last int64 }

// Now is the end of a Range that ends with the folders as they are.
const Now = -1

// Diff yields what calls changed, at or below paths if there are any. The paths are of the room.
func (c *Checkpoints) Diff(ctx context.Context, agent agents.Agent, r Range, paths []string) iter.Seq2[history.Change, error] {
	return func(yield func(history.Change, error) bool) {
		from, to, err := c.ends(ctx, agent, r)
		var of selection
		if err == nil {
			of, err = within(agent, to, paths)
		}
		if err != nil {
			yield(history.Change{}, err)
			return
		}
		c.changes(ctx, from, to, of)(yield)
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
	last := first
	if err == nil && r.Last > 0 {
		last, err = c.pick(ctx, agent, r.Last, "")
	}
	if err != nil {
		return nil, nil, err
	}
	if from, to = first.before, last.after; r.Last == Now {
		to = now
	}
	switch {
	case from == nil:
		err = lacks(first)
	case to == nil:
		err = lacks(last)
	}
	return from, to, err
}

// madePlugins is the folder that a new home has. If it is not empty, the home is not new.
const madePlugins = "plugins"

// HomeAfter returns what an agent's home was after a call.
func (c *Checkpoints) HomeAfter(ctx context.Context, agent agents.Agent, call int64) (history.Digest, error) {
	_, then, err := c.ends(ctx, agent, Range{First: call})
	return then[homeName], err
}

// Fork fills the home of a new agent with that of another, as it is now, or as HomeAfter returned it. After
// an error, the new agent must be deleted.
func (c *Checkpoints) Fork(ctx context.Context, from, to agents.Agent, then history.Digest, report progress.Func) (err error) {
	fresh, err := c.Agents.OpenHome(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	defer c.Agents.Recount(to)
	if then != (history.Digest{}) {
		_, err = c.History.Restore(ctx, homeKey(to.ID), fresh, then, nil, report)
		return err
	}
	old, err := c.Agents.OpenHome(from)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := fresh.Remove(madePlugins); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Rejected, "fork agent", string(to.Name), err).Advise("Fork to an agent whose home is empty.")
	}
	meter := report.Start("copy the home folder", 0, 0)
	defer meter.Finish()
	return clone.Tree(ctx, old, fresh, meter.Add)
}

// Verify reads all checkpoints. It returns the objects that are damaged or missing, and the calls that cannot be
// undone as a whole, each with the first file that is damaged.
func (c *Checkpoints) Verify(ctx context.Context) (objects []history.Digest, calls []string, err error) {
	trees, err := c.referred(ctx)
	if err == nil {
		objects, err = c.History.Verify(ctx, trees...)
	}
	if err != nil || len(objects) == 0 {
		return objects, nil, err
	}
	list, err := c.calls(ctx, "changed ORDER BY agent, call")
	for _, call := range list {
		for change, err := range c.changes(ctx, call.before, call.after, nil) {
			if err = cmp.Or(err, c.readable(change.Before), c.readable(change.After)); err != nil {
				agent, _ := c.Agents.Get(string(call.Agent))
				calls = append(calls, fmt.Sprintf("%s: call %d: %s: %v", agent.Name, call.Number, printable.Clip(change.Path), err))
				break
			}
		}
	}
	return objects, calls, err
}

// readable reads the content of a file, if it is one.
func (c *Checkpoints) readable(e history.Entry) error {
	if e.Kind != history.File {
		return nil
	}
	r, err := c.History.Content(e)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

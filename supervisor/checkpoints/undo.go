package checkpoints

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
)

const (
	// maxListed bounds the changes in a result.
	maxListed = 1000
	// maxNamed bounds the names in an error.
	maxNamed = 10
)

// Request says what to undo.
type Request struct {
	// Call is the call, or 0 for the last one that changed something and is not undone. With Redo, it
	// is 0: the last undo that is not undone.
	Call int64
	Redo bool
	// Paths, if any, are the only files and folders to bring back.
	Paths []string
	// AllSince also undoes everything that came after the call.
	AllSince bool
	// Force does not care for running calls, and for programs that have files open.
	Force bool
}

// Undone is what an undo did.
type Undone struct {
	Call    Call // the undo itself
	Of      Call
	Changes []Change // at most maxListed
	Changed int
	Notes   []history.Note // files that were left alone
}

// Undo brings back what was before a call. What later calls changed stays, and it fails with Rejected
// if that is in the same files. It is a call of its own and can be undone.
func (c *Checkpoints) Undo(ctx context.Context, agent agents.Agent, r Request, report progress.Func) (u Undone, err error) {
	op, where := Undo, "tool != '' AND undoes = 0 AND undone = 0 AND changed"
	if r.Redo {
		op, where = Redo, "tool = '"+Undo+"' AND undone = 0 AND changed"
	}
	give, err := c.take(ctx, agent.ID)
	if err != nil {
		return u, err
	}
	defer give()
	c.pruning.Lock()
	defer c.pruning.Unlock()
	now, err := c.now(ctx, agent)
	if err != nil {
		c.Log.Warn("nothing can be undone", "agent", agent.Name, "error", err) // it may name paths that agents must not know
		return u, fault.Newf(fault.Unavailable, op, string(agent.Name), "there is no checkpoint of the home as it is now").
			Advise("See osaurus-sandbox logs. If there is no room for it: osaurus-sandbox config set history.maxMB=…")
	}
	if err := c.idle(op, agent, r.Force); err != nil {
		return u, err
	}
	if u.Of, err = c.pick(ctx, agent, r.Call, where); err != nil {
		return u, err
	}
	paths, err := within(agent, r.Paths)
	if err != nil {
		return u, err
	}
	plan, err := c.plan(ctx, agent, u.Of, now, paths, r.AllSince)
	if err != nil {
		return u, err
	}
	if err := c.preview(ctx, op, agent, &u, plan, now, r.Force); err != nil {
		return u, err
	}
	u.Call = Call{Agent: agent.ID, Began: time.Now(), Tool: op, Undoes: u.Of.Number, Summary: summary(u.Of, r), before: now}
	return u, c.restore(context.WithoutCancel(ctx), agent, &u, plan, r, report)
}

// summary describes an undo.
func summary(of Call, r Request) string {
	text := fmt.Sprintf("call %d", of.Number)
	if r.AllSince {
		text += " and all since"
	}
	if len(r.Paths) > 0 {
		text += ": " + strings.Join(r.Paths, ", ")
	}
	return Summary(text)
}

// idle refuses to restore while calls run.
func (c *Checkpoints) idle(op string, agent agents.Agent, force bool) error {
	s := c.state(agent.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.running) == 0 || force {
		return nil
	}
	return fault.Newf(fault.Rejected, op, string(agent.Name), "it still runs %s", strings.Join(slices.Sorted(maps.Values(s.running)), ", ")).
		Advise("Wait until that has ended, or use --force.")
}

// within returns the paths of a room relative to the agent's home; none is the whole home.
func within(agent agents.Agent, paths []string) (list []string, err error) {
	for _, p := range paths {
		at := p
		if !path.IsAbs(at) {
			at = path.Join(agent.Home(), at)
		}
		at, inside := strings.CutPrefix(path.Clean(at)+"/", agent.Home()+"/")
		if !inside || strings.ContainsRune(at, 0) {
			return nil, fault.Newf(fault.InvalidArgs, "find file", p, "it is not in the agent's home").Advise("Checkpoints are of " + agent.Home() + ". Relative paths are below it.")
		}
		if at = strings.TrimSuffix(at, "/"); at == "" {
			return nil, nil
		}
		list = append(list, at)
	}
	return list, nil
}

// step is what to restore in one root: all of it, or some paths.
type step struct {
	all   bool
	paths []string
	to    history.Digest
}

// plan returns what to restore to undo a call, by the names of roots.
func (c *Checkpoints) plan(ctx context.Context, agent agents.Agent, of Call, now trees, paths []string, allSince bool) (map[string]step, error) {
	switch {
	case of.Pruned():
		return nil, lacks(of, "before")
	case of.before == nil, !of.Changed:
		return nil, lacks(of, "before")
	case of.after == nil && !allSince:
		return nil, lacks(of, "after")
	}
	plan := map[string]step{}
	var conflicts []string
	for root, before := range of.before {
		cur, there := now[root]
		if !there {
			continue // a mount that has ended
		}
		later := []string{}
		if !allSince {
			for change, err := range c.History.Diff(ctx, of.after[root], cur, paths...) {
				if err != nil {
					return nil, err
				}
				later = append(later, change.Path)
			}
		}
		if len(later) == 0 {
			plan[root] = step{all: len(paths) == 0, paths: paths, to: before}
			continue
		}
		slices.Sort(later)
		free, taken, err := c.sort(ctx, before, of.after[root], cur, later, paths)
		if err != nil {
			return nil, err
		}
		conflicts = append(conflicts, taken...)
		plan[root] = step{paths: free, to: before}
	}
	if len(conflicts) > 0 {
		return nil, fault.Newf(fault.Rejected, "undo call", fmt.Sprint(of.Number), "changed again since: %s", names(conflicts)).
			Advise(fmt.Sprintf("Undo everything since then too, with --all-since: osaurus-sandbox undo %s %d --all-since; or name other files.", agent.Name, of.Number))
	}
	return plan, nil
}

// sort returns which of a call's changed paths can be restored alone, and which were changed again.
// Later is sorted.
func (c *Checkpoints) sort(ctx context.Context, before, after, now history.Digest, later, paths []string) (free, taken []string, err error) {
	whole := "\x00" // the last folder that is restored with all that is in it
	for change, err := range c.History.Diff(ctx, before, after, paths...) {
		switch {
		case err != nil:
			return nil, nil, err
		case strings.HasPrefix(change.Path, whole):
			continue
		case !touched(later, change.Path):
			free = append(free, change.Path)
			if change.Before.Kind == history.Folder || change.After.Kind == history.Folder {
				whole = change.Path + "/"
			}
			continue
		}
		cur, err := c.History.Find(ctx, now, change.Path)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, nil, err
		}
		folder := change.What != history.Modified && (change.Before.Kind == history.Folder || change.After.Kind == history.Folder)
		if folder && (cur.Kind == history.Folder || cur.Kind == 0) { // it stays, for what else is in it
			continue
		}
		if !same(cur, change.Before) {
			taken = append(taken, change.Path)
		}
	}
	return free, taken, nil
}

// touched reports whether a path or something below it is in a sorted list.
func touched(list []string, path string) bool {
	if _, found := slices.BinarySearch(list, path); found {
		return true
	}
	i, _ := slices.BinarySearch(list, path+"/")
	return i < len(list) && strings.HasPrefix(list[i], path+"/")
}

// same reports whether two entries are equal, apart from times.
func same(a, b history.Entry) bool {
	return a.Kind == b.Kind && a.Mode == b.Mode && a.Size == b.Size && a.Target == b.Target && a.Content == b.Content
}

// names lists some names for people.
func names(list []string) string {
	shown := make([]string, min(len(list), maxNamed))
	for i := range shown {
		shown[i] = printable.Clip(list[i])
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lacks is the error of a call without checkpoints on one side.
func lacks(call Call, side string) error {
	const op, advice = "undo call", "See which calls can be undone: osaurus-sandbox history"
	number := fmt.Sprint(call.Number)
	switch {
	case call.Trouble != "":
		return fault.Newf(fault.Unavailable, op, number, "%s", call.Trouble).Advise(advice)
	case !call.Changed:
		return fault.Newf(fault.Rejected, op, number, "it changed nothing").Advise(advice)
	case call.Pruned():
		return fault.Newf(fault.Unavailable, op, number, "its checkpoints were deleted to make room, or for their age").
			Advise("To keep more: osaurus-sandbox config set history.maxMB=… history.maxDays=…")
	}
	return fault.Newf(fault.Unavailable, op, number, "there is no checkpoint %s it", side).Advise(advice)
}

// preview lists what a plan will change, and refuses it if nothing, or if programs have it open.
func (c *Checkpoints) preview(ctx context.Context, op string, agent agents.Agent, u *Undone, plan map[string]step, now trees, force bool) error {
	return c.each(agent, func(root Root) error {
		step, ok := plan[root.Name()]
		if !ok || !step.all && len(step.paths) == 0 {
			return nil
		}
		open, err := c.opened(ctx, agent, root, force)
		if err != nil {
			return err
		}
		var users []string
		for change, err := range c.History.Diff(ctx, now[root.Name()], step.to, step.paths...) {
			if err != nil {
				return err
			}
			if u.Changed++; len(u.Changes) < maxListed {
				u.Changes = append(u.Changes, Change{root.Name(), change})
			}
			users = append(users, open[change.Path]...)
		}
		if len(users) > 0 {
			return fault.Newf(fault.Rejected, op, string(agent.Name), "programs have files open that would change: %s", names(users)).
				Advise("End them first, or use --force: they may then write to files that are gone.")
		}
		return nil
	})
}

// opened returns the programs that have files of a root open, by path.
func (c *Checkpoints) opened(ctx context.Context, agent agents.Agent, root Root, force bool) (map[string][]string, error) {
	open := map[string][]string{}
	if force {
		return open, nil
	}
	list, err := c.Agents.Opened(ctx, agent, root.Folder())
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "list open files", string(agent.Name), err).Advise("Use --force to do without the list.")
	}
	for _, p := range list {
		for _, at := range p.Open {
			at = strings.TrimSuffix(at, " (deleted)")
			open[at] = append(open[at], fmt.Sprintf("%s (process %d) has %s", printable.Clip(p.Command), p.PID, at))
		}
	}
	return open, nil
}

// restore does what was planned, between the checkpoints of a call of its own.
func (c *Checkpoints) restore(ctx context.Context, agent agents.Agent, u *Undone, plan map[string]step, r Request, report progress.Func) error {
	if u.Changed == 0 {
		return fault.Newf(fault.Rejected, "undo call", fmt.Sprint(u.Of.Number), "nothing is left to bring back").Advise("See: osaurus-sandbox history " + string(agent.Name))
	}
	if err := c.rows.put(ctx, &u.Call); err != nil { // a daemon that is killed meanwhile finishes it
		return err
	}
	failed := c.each(agent, func(root Root) error {
		step, ok := plan[root.Name()]
		if !ok || !step.all && len(step.paths) == 0 {
			return nil
		}
		done, err := root.Restore(ctx, step.to, step.paths, report)
		u.Notes = append(u.Notes, done.Notes...)
		return err
	})
	after, missing := c.snapshot(ctx, agent)
	c.state(agent.ID).last = after
	u.Call.after, u.Call.Ended, u.Call.Outcome = after, time.Now(), "ok"
	u.Call.Changed = after == nil || c.differ(ctx, u.Call.before, after)
	if failed != nil {
		u.Call.Outcome = string(fault.KindOf(failed))
	}
	if missing != nil {
		u.Call.Trouble = "no checkpoint after it: " + missing.Error()
	}
	if err := c.rows.put(ctx, &u.Call); err != nil || failed != nil {
		return fault.Wrap(u.Call.Tool, string(agent.Name), cmp.Or(failed, err))
	}
	return c.marked(ctx, u.Of, u.Call.Number, r)
}

// marked notes which calls are undone now.
func (c *Checkpoints) marked(ctx context.Context, of Call, by int64, r Request) error {
	if len(r.Paths) > 0 {
		return nil // the rest can still be undone
	}
	where := "call = ?"
	if r.AllSince {
		where = "call >= ? AND undone = 0"
	}
	err := c.rows.mark(ctx, of.Agent, by, where+" AND call < ?", of.Number, by)
	if err == nil && of.Undoes != 0 {
		err = c.rows.mark(ctx, of.Agent, 0, "undone = ?", of.Number)
	}
	return err
}

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
	// Force ignores running calls, and programs that have files open.
	Force bool
}

// Undone is what an undo did.
type Undone struct {
	Call    Call // the undo itself
	Of      Call
	Changes []history.Change // at most maxListed
	Changed int
	Notes   []history.Note // files that were left alone
}

// Undo brings back what was before a call. What later calls changed stays, and it fails with Rejected
// if that is in the same files. It is a call of its own and can be undone.
func (c *Checkpoints) Undo(ctx context.Context, agent agents.Agent, r Request) (u Undone, err error) {
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
	p := plan{c: c, agent: agent, request: r, now: now, undone: &u, roots: map[string][]string{}}
	if p.paths, err = within(agent, now, r.Paths); err == nil {
		err = p.make(ctx, op)
	}
	if err != nil {
		return u, err
	}
	u.Call = Call{Agent: agent.ID, Began: time.Now(), Tool: op, Undoes: u.Of.Number, Summary: summary(u.Of, r), before: now}
	return u, c.restore(context.WithoutCancel(ctx), agent, &u, p.roots, r)
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
	return fault.Newf(fault.Rejected, op, string(agent.Name), "these are still running: %s", strings.Join(slices.Sorted(maps.Values(s.running)), ", ")).
		Advise("Wait until they have ended, or use --force.")
}

// selection is what to look at in roots, by their names: some paths, or all without any. A nil selection is
// everything.
type selection map[string][]string

// has returns the paths in a root, and whether it is in the selection.
func (s selection) has(root string) ([]string, bool) {
	paths, ok := s[root]
	return paths, ok || s == nil
}

// within finds paths of a room in the roots of some trees. Relative paths are below the agent's home.
func within(agent agents.Agent, roots trees, paths []string) (selection, error) {
	var out selection
	for _, p := range paths {
		at := path.Clean(p)
		if !path.IsAbs(at) {
			at = path.Join(agent.Home(), at)
		}
		found, inside := "", ""
		for root := range roots {
			folder, _, mount := strings.Cut(root, mountMark)
			if !mount {
				folder = agent.Home()
			}
			if rest, ok := strings.CutPrefix(at+"/", folder+"/"); ok && (found == "" || mount) {
				found, inside = root, strings.TrimSuffix(rest, "/")
			}
		}
		if found == "" || strings.ContainsRune(at, 0) {
			return nil, fault.Newf(fault.InvalidArgs, "find file", p, "it is not in the agent's home, nor mounted for review").
				Advise("Checkpoints are of " + agent.Home() + " and of mounts. Relative paths are below the home.")
		}
		if out == nil {
			out = selection{}
		}
		if before, ok := out[found]; inside == "" {
			out[found] = []string{}
		} else if !ok || len(before) > 0 { // otherwise all of it is selected
			out[found] = append(before, inside)
		}
	}
	return out, nil
}

// plan is what to restore to undo a call.
type plan struct {
	c       *Checkpoints
	agent   agents.Agent
	request Request
	paths   selection
	now     trees
	undone  *Undone

	roots     map[string][]string // paths by the names of roots; none is all
	conflicts []string            // paths
	users     []string            // programs that have files open
}

// make makes the plan, or fails if there is nothing to do or something is in
// the way.
func (p *plan) make(ctx context.Context, op string) error {
	of := p.undone.Of
	switch number := fmt.Sprint(of.Number); {
	case !of.Changed:
		return fault.Newf(fault.Rejected, op, number, "it changed nothing").Advise("See which calls can be undone: osaurus-sandbox history " + string(p.agent.Name))
	case of.before == nil, of.after == nil && !p.request.AllSince:
		return lacks(of)
	}
	if err := p.c.each(p.agent, func(root Root) error { return p.add(ctx, root) }); err != nil {
		return err
	}
	switch number := fmt.Sprint(of.Number); {
	case len(p.conflicts) > 0:
		return fault.Newf(fault.Rejected, op, number, "changed again since: %s", names(p.conflicts)).
			Advise(fmt.Sprintf("Undo everything since then too, with --all-since: osaurus-sandbox undo %s %d --all-since; or name other files.", p.agent.Name, of.Number))
	case len(p.users) > 0:
		return fault.Newf(fault.Rejected, op, string(p.agent.Name), "programs have files open that would change: %s", names(p.users)).
			Advise("End them first, or use --force: they may then write to files that are gone.")
	case p.undone.Changed == 0:
		return fault.Newf(fault.Rejected, op, number, "nothing is left to bring back").Advise("See: osaurus-sandbox history " + string(p.agent.Name))
	}
	return nil
}

// add plans what to restore in a root. What was changed since the call stays as it is, also the folders that it is
// in. What both have changed is a conflict.
func (p *plan) add(ctx context.Context, root Root) error {
	name, of, u := root.Name, p.undone.Of, p.undone
	before, there := of.before[name]
	_, after := of.after[name]
	paths, selected := p.paths.has(name)
	if !there || !after && !p.request.AllSince || !selected {
		return nil // it was mounted after the call, or ended before
	}
	var mine, later []string
	if !p.request.AllSince {
		var err, failed error
		mine, err = p.c.changed(ctx, before, of.after[name], paths)
		later, failed = p.c.changed(ctx, of.after[name], p.now[name], paths)
		if err = cmp.Or(err, failed); err != nil || len(mine) == 0 {
			return err
		}
	}
	open, err := p.opened(ctx, root)
	if err != nil {
		return err
	}
	var free []string
	whole := "\x00" // what is restored with all that is in it
	for change, err := range p.c.History.Diff(ctx, p.now[name], before, paths...) {
		if err != nil {
			return err
		}
		part := strings.HasPrefix(change.Path, whole)
		if !part && touched(later, change.Path) {
			if _, both := slices.BinarySearch(mine, change.Path); both && !(change.Before.Kind == history.Folder && change.What != history.Modified) {
				p.conflicts = append(p.conflicts, change.Path)
			}
			continue
		}
		if !part {
			free, whole = append(free, change.Path), change.Path+"/"
		}
		if u.Changed++; len(u.Changes) < maxListed {
			if shown, changed := p.c.shown(ctx, name, change); changed {
				u.Changes = append(u.Changes, shown)
			}
		}
		p.users = append(p.users, open[change.Path]...)
	}
	if len(later) == 0 {
		free = paths
	}
	if len(free) > 0 || len(later) == 0 {
		p.roots[name] = free
	}
	return nil
}

// changed returns the sorted paths of the changes between two trees.
func (c *Checkpoints) changed(ctx context.Context, from, to history.Digest, paths []string) (list []string, err error) {
	for change, err := range c.History.Diff(ctx, from, to, paths...) {
		if err != nil {
			return nil, err
		}
		list = append(list, change.Path)
	}
	slices.Sort(list)
	return list, nil
}

// touched reports whether a path or something below it is in a sorted list.
func touched(list []string, path string) bool {
	if _, found := slices.BinarySearch(list, path); found {
		return true
	}
	i, _ := slices.BinarySearch(list, path+"/")
	return i < len(list) && strings.HasPrefix(list[i], path+"/")
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

// lacks is the error of a call without checkpoints.
func lacks(call Call) error {
	return fault.Newf(fault.Unavailable, "undo call", fmt.Sprint(call.Number), "it has no checkpoints: they were deleted to make room or for their age, or could not be made").
		Advise("See osaurus-sandbox logs. To keep more: osaurus-sandbox config set history.maxMB=… history.maxDays=…")
}

// opened returns the programs that have files of a root open, by path.
func (p *plan) opened(ctx context.Context, root Root) (map[string][]string, error) {
	if p.request.Force {
		return nil, nil
	}
	list, err := p.c.Agents.Opened(ctx, p.agent, root.Folder)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "list open files", string(p.agent.Name), err).Advise("Use --force to do without the list.")
	}
	open := map[string][]string{}
	for _, program := range list {
		for _, at := range program.Open {
			at = strings.TrimSuffix(at, " (deleted)")
			open[at] = append(open[at], fmt.Sprintf("%s (process %d) has %s", printable.Clip(program.Command), program.PID, at))
		}
	}
	return open, nil
}

// restore does what was planned, between the checkpoints of a call of its own.
func (c *Checkpoints) restore(ctx context.Context, agent agents.Agent, u *Undone, roots map[string][]string, r Request) error {
	if err := c.put(ctx, &u.Call); err != nil { // a daemon that is killed meanwhile finishes it
		return err
	}
	failed := c.each(agent, func(root Root) error {
		paths, planned := roots[root.Name]
		if !planned {
			return nil
		}
		done, err := root.Restore(ctx, u.Of.before[root.Name], paths)
		u.Notes = append(u.Notes, done.Notes[:min(len(done.Notes), maxListed)]...)
		return err
	})
	after, missing := c.snapshot(ctx, agent)
	if missing != nil {
		c.Log.Warn("an undo has no checkpoint after it", "agent", agent.Name, "error", missing)
	}
	c.state(agent.ID).last = after
	u.Call.after, u.Call.Ended, u.Call.Outcome = after, time.Now(), "ok"
	u.Call.Changed = after == nil || c.differ(ctx, u.Call.before, after)
	if failed != nil {
		u.Call.Outcome = string(fault.KindOf(failed))
	}
	if err := c.put(ctx, &u.Call); err != nil || failed != nil {
		return fault.Wrap(u.Call.Tool, string(agent.Name), cmp.Or(failed, err))
	}
	return c.mark(ctx, u.Of, u.Call.Number, r)
}

// mark notes which calls are undone now.
func (c *Checkpoints) mark(ctx context.Context, of Call, by int64, r Request) error {
	if len(r.Paths) > 0 {
		return nil // the rest can still be undone
	}
	where := "call = ?"
	if r.AllSince {
		where = "call >= ? AND undone = 0"
	}
	_, err := c.DB.Exec(ctx, opWrite, "UPDATE history SET undone = ? WHERE agent = ? AND call < ? AND "+where, by, of.Agent, by, of.Number)
	if err == nil && of.Undoes != 0 { // what that one undid is there again
		_, err = c.DB.Exec(ctx, opWrite, "UPDATE history SET undone = 0 WHERE agent = ? AND undone = ?", of.Agent, of.Number)
	}
	return err
}

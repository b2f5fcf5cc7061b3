package review

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
)

// whyChanged is the reason to leave what is not as it was reviewed.
const whyChanged = "it has changed meanwhile: review it again"

// chosen is a change, or some hunks of it.
type chosen struct {
	*change
	hunks map[int]bool // by number from 0, or nil for all
}

func (sel Selection) paths() (list []string) {
	for _, p := range sel.Picks {
		list = append(list, p.Path)
	}
	return list
}

func (r *Report) leave(path, reason string) {
	r.Left = append(r.Left, Outcome{Path: path, Reason: reason})
}

// choose looks, and returns the changes that the selection covers. The report has what it cannot
// take. A folder above a pick comes along if it is needed.
func (r *Review) choose(ctx context.Context, sel Selection, needed func(*change) bool) (*look, []chosen, *Report, error) {
	names := sel.paths()
	l, err := r.look(ctx, names)
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := l.changes()
	if err != nil {
		return nil, nil, nil, err
	}
	report, used := &Report{}, map[string]bool{}
	var list []chosen
	for _, c := range all {
		// A pick of a version says nothing about what is below it: nobody has seen what is there by now.
		covering := slices.DeleteFunc(l.covering(c.Path), func(p string) bool { return p != c.Path && sel.Picks[l.paths[p]].ID != "" })
		way := l.ways[c.Path] && needed(c)
		if len(covering) == 0 && len(names) > 0 && !way {
			continue
		}
		one := chosen{change: c}
		for i, p := range covering {
			used[p] = true
			if pick := sel.Picks[l.paths[p]]; i > 0 {
				continue
			} else if p == c.Path && pick.ID != "" && pick.ID != c.ID {
				report.leave(c.Path, whyChanged)
				one.change = nil
			} else if p == c.Path {
				err = one.pickHunks(pick.Hunks)
			} else if len(pick.Hunks) > 0 {
				err = fault.Newf(fault.InvalidArgs, "select hunk", pick.Path, "it has no hunks").Advise("Name a changed text file.")
			}
		}
		switch {
		case err != nil:
			return nil, nil, nil, err
		case one.change != nil:
			list = append(list, one)
		}
	}
	for _, name := range names {
		if !used[path.Clean(name)] {
			report.leave(name, "there is no change")
		}
	}
	slices.SortFunc(list, func(a, b chosen) int { return history.ByPath(a.Path, b.Path) })
	return l, list, report, nil
}

func (c *chosen) pickHunks(numbers []int) error {
	picked := map[int]bool{}
	for _, n := range numbers {
		if n < 1 || n > len(c.Hunks) {
			return fault.Newf(fault.InvalidArgs, "select hunk", c.Path, "there are %d hunks, no hunk %d", len(c.Hunks), n).Advise("Look at the review again: hunks are numbered from 1.")
		}
		picked[n-1] = true
	}
	if len(picked) > 0 && (len(picked) < len(c.Hunks) || c.Before.Mode != c.After.Mode && c.Before.Kind == c.After.Kind) {
		c.hunks = picked
	}
	return nil
}

// part returns the real text with the chosen hunks, or without them.
func (l *look) part(c chosen, with bool) (string, error) {
	before, after, _, err := l.texts(c.change)
	return diff.Select(before, after, func(i int) bool { return c.hunks[i] == with }), err
}

// Accept writes what is selected to the real folder, each file atomically, and notes it as what the agent's next
// changes begin with. It leaves what changes meanwhile. If it fails, it writes nothing, and if it is killed, the
// restore of the history is pending.
func (r *Review) Accept(ctx context.Context, sel Selection) (*Report, error) {
	l, list, report, err := r.choose(ctx, sel, func(c *change) bool { return c.After.Kind == history.Folder && c.Before.Kind == 0 })
	if err != nil {
		return nil, err
	}
	edits, texts := map[string]history.Entry{}, map[string]string{}
	for _, c := range list {
		why := l.leaves(c.change, sel)
		if c.Conflict != "" && c.hunks != nil {
			why = "a conflict is accepted as a whole or not at all"
		}
		if why != "" {
			report.leave(c.Path, why)
			continue
		}
		want := c.After
		if want.Mtime = time.Now().UnixNano(); c.hunks != nil || c.joined {
			want.Content, want.Mode = history.Digest{}, c.After.Mode
			if c.hunks != nil {
				want.Mode = c.Before.Mode
				texts[c.Path], err = l.part(c, true)
			} else {
				texts[c.Path], _, _, err = l.join(c.change)
			}
			if err != nil {
				return report, err
			}
			want.Size = int64(len(texts[c.Path]))
		}
		edits[c.Path] = want
	}
	made, left, err := l.apply(edits, texts)
	if err != nil {
		return report, fault.Wrap("accept", r.Real.Name(), err)
	}
	began := map[string]history.Entry{}
	for _, c := range list {
		now, ok := made[c.Path]
		if _, tried := edits[c.Path]; !tried {
			continue
		}
		why := left[c.Path]
		for dir := parent(c.Path); why == "" && dir != "."; dir = parent(dir) {
			why = left[dir]
		}
		switch {
		case !ok:
			report.leave(c.Path, "its folder is missing, or what is in it was not accepted")
			continue
		case why != "":
			report.leave(c.Path, why)
			continue
		case c.Merged && c.hunks == nil: // the agent's version is no change anymore
			now = c.upper
		}
		if report.Done = append(report.Done, Outcome{Path: c.Path, Merged: c.Merged}); !c.Merged || c.hunks == nil {
			began[c.Path] = common(now)
		}
	}
	return report, l.begin(began)
}

// apply makes edits in the real folder. It returns those that were possible, and why some of them were left.
func (l *look) apply(edits map[string]history.Entry, texts map[string]string) (made map[string]history.Entry, left map[string]string, err error) {
	open := func(path string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(texts[path])), nil }
	to, err := l.History.Edit(l.ctx, l.key("accepted"), l.real, edits, open)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.History.Forget(l.key("accepted"))) }()
	made, left = map[string]history.Entry{}, map[string]string{}
	var paths []string
	for c, err := range l.History.Diff(l.ctx, l.real, to) {
		if err != nil {
			return nil, nil, err
		}
		name := c.Path
		if made[name] = c.After; c.Before.Kind == history.Folder || c.After.Kind == history.Folder {
			name += "/"
		}
		paths = append(paths, name)
	}
	if len(paths) == 0 { // which would be everything
		return made, left, nil
	}
	done, err := l.History.Apply(l.ctx, l.key("real"), l.Real, l.real, to, paths)
	for _, n := range done.Notes {
		left[n.Path] = n.Why
	}
	return made, left, err
}

// Reject writes the real version of what is selected to the agent's view, or removes what
// the real folder does not have.
func (r *Review) Reject(ctx context.Context, sel Selection) (*Report, error) {
	l, list, report, err := r.choose(ctx, sel, func(c *change) bool { return c.Before.Kind == history.Folder && c.upper.Kind == 0 })
	if err != nil {
		return nil, err
	}
	began := map[string]history.Entry{}
	var steps []step
	for _, c := range list {
		if c.Git && !l.ways[c.Path] && !l.named(c.Path) {
			report.leave(c.Path, unnamedGit)
			continue
		}
		if c.broken {
			report.leave(c.Path, c.Conflict)
			continue
		}
		s := step{path: c.Path, want: c.Before}
		if c.hunks != nil {
			text, err := l.part(c, false)
			if err != nil {
				return report, err
			}
			s.want, s.text = c.upper, &text
		}
		steps = append(steps, s)
		began[c.Path] = common(c.Before)
	}
	err = r.write(ctx, steps, func(s step, why string) {
		if why != "" {
			report.leave(s.path, why)
			delete(began, s.path)
		} else {
			report.Done = append(report.Done, Outcome{Path: s.path})
		}
	})
	maps.DeleteFunc(began, func(_ string, e history.Entry) bool { return e.Kind == history.Whiteout })
	if err != nil {
		return report, err
	}
	return report, l.begin(began)
}

// step changes a path in the agent's view.
type step struct {
	path string
	want history.Entry
	text *string // instead of the content of want
}

// write makes steps, which are in order: first it removes, from the bottom up, so that folders are empty. It calls
// done with each, and why it was left.
func (r *Review) write(ctx context.Context, steps []step, done func(s step, why string)) error {
	var first, rest []step
	for _, s := range steps {
		if s.want.Kind == 0 {
			first = append(first, s)
		} else {
			rest = append(rest, s)
		}
	}
	slices.Reverse(first)
	for _, s := range append(first, rest...) {
		if err := ctx.Err(); err != nil {
			return fault.Wrap("write to the room", s.path, err)
		}
		if s.want.Kind != 0 && !s.want.Kind.Kept() {
			done(s, "it is not a file, folder or link")
		} else if err := r.writeOne(ctx, s); err != nil {
			done(s, err.Error())
		} else {
			done(s, "")
		}
	}
	return nil
}

func (r *Review) writeOne(ctx context.Context, s step) error {
	if s.text != nil {
		return r.View(ctx, s.path, s.want, strings.NewReader(*s.text))
	}
	content, err := r.History.Content(s.want)
	if err != nil {
		return err
	}
	return r.View(ctx, s.path, s.want, content)
}

// Restore brings the agent's view, or only some paths in it, to a tree of Record. Where that has nothing, the real
// version is written.
func (r *Review) Restore(ctx context.Context, to history.Digest, paths []string) (out history.Restored, err error) {
	l, err := r.look(ctx, nil)
	if err != nil {
		return out, err
	}
	var real []string
	for c, err := range r.History.Diff(ctx, l.upper, to) {
		switch {
		case err != nil:
			return out, err
		case c.After.Kind == history.Folder, c.After.Kind == 0 && c.Before.Kind == history.Folder:
			c.Path += "/"
		}
		real = append(real, c.Path)
	}
	if err := l.takeReal(real); err != nil {
		return out, err
	}
	out.Before = l.upper
	var sides [2]map[string]pair // now and then
	for i, tree := range []history.Digest{l.upper, to} {
		sides[i], l.upper = map[string]pair{}, tree
		err := l.each(func(p pair) error {
			sides[i][p.path] = p
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	entry := func(side int, path string) history.Entry { // as the agent sees it
		if p, ok := sides[side][path]; ok {
			return p.upper
		}
		return sides[1-side][path].real // it shows through
	}
	all := maps.Clone(sides[0])
	maps.Copy(all, sides[1])
	var steps []step
	for _, name := range slices.SortedFunc(maps.Keys(all), history.ByPath) {
		have, s := entry(0, name), step{path: name, want: entry(1, name)}
		selected := len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
			return name == p || strings.HasPrefix(name, p+"/") || s.want.Kind == history.Folder && have.Kind == 0 && strings.HasPrefix(p, name+"/")
		})
		if selected && !have.Same(s.want) {
			steps = append(steps, s)
		}
	}
	return out, r.write(ctx, steps, func(s step, why string) {
		if why != "" {
			out.Notes = append(out.Notes, history.Note{Path: s.path, Why: why})
			return
		}
		out.Changed++
	})
}

// Shown returns a change between two trees of Record as the agent saw it, or false if it saw none. Where one of them
// has nothing, it saw what its changes began with.
func Shown(ctx context.Context, h *history.History, key string, c history.Change) (history.Change, bool) {
	tree, _ := h.Head(key + "/base")
	base, _ := h.Find(ctx, tree, c.Path) // or nothing
	for _, e := range []*history.Entry{&c.Before, &c.After} {
		if e.Kind == 0 {
			*e = base
		}
		*e = seen(*e)
	}
	return history.NewChange(c.Path, c.Before, c.After), !c.Before.Same(c.After)
}

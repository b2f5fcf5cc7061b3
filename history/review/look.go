package review

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// Limits of a listing, which comes from the guest. Beyond them the review is refused.
const (
	maxEntries  = 200_000        // a large node_modules has 100,000
	maxNames    = 64 << 20       // bytes of all paths and targets: memory
	maxPath     = 4096           // PATH_MAX of Linux
	maxDepth    = 256            // each level is looked up for each path in it
	maxFileSize = int64(1) << 50 // more than a data disk holds
)

// clockMargin is how far the guest's clock may be from the host's. A file may be stamped up to clockTick
// before it was changed.
const (
	clockMargin = 2 * time.Second
	clockTick   = 10 * time.Millisecond
)

// look is one look at the upper layer and the real folder.
type look struct {
	*Review
	ctx      context.Context
	paths    map[string]int // that were asked for: their places in the list
	ways     map[string]bool
	listed   map[string]Listed
	names    int // bytes of all paths and targets
	ignore   *ignorer
	marks    []mark
	rest     Changes // what is ignored
	hunkText int     // bytes that hunks may still have

	upper, real, base history.Digest
	last              history.Digest // the upper layer at the last look
}

func (r *Review) key(tree string) string { return r.Key + "/" + tree }

// look takes the upper layer into the history, and what the real folder has at the same paths: all that is not
// ignored, or is asked for. It also notes what the agent's changes began with.
func (r *Review) look(ctx context.Context, paths []string) (*look, error) {
	l := &look{Review: r, ctx: ctx, paths: map[string]int{}, ways: map[string]bool{}, listed: map[string]Listed{}, marks: newMarks()}
	for i, p := range paths {
		p = path.Clean(p)
		l.paths[p] = i
		for dir := parent(p); dir != "." && !l.ways[dir]; dir = parent(dir) {
			l.ways[dir] = true
		}
	}
	l.ignore = newIgnorer(l.ignoreFile)
	began := time.Now()
	for e, err := range r.Upper.List(ctx) {
		if err == nil {
			err = l.add(e)
		}
		if err != nil {
			return nil, fault.Wrap("list changes", "", err)
		}
	}
	if err := l.take(); err != nil {
		return nil, fault.Wrap("read changes", "", err).Advise("If there is no room for them: osaurus-sandbox config set history.maxMB=…")
	}
	err := l.record()
	r.Looked = began
	return l, err
}

// Record takes the upper layer into the history and returns its tree, without what is ignored. It reads only what
// changed since the last time. It also notes what the agent's changes began with: call it after each tool call,
// since a real file that is edited later is no longer known to be older.
func (r *Review) Record(ctx context.Context) (history.Digest, error) {
	l, err := r.look(ctx, nil)
	if err != nil {
		return history.Digest{}, err
	}
	return l.upper, nil
}

// Pending reports whether an Accept was killed.
func (r *Review) Pending() (bool, error) {
	keys, err := r.History.Pending()
	return slices.Contains(keys, r.key("real")), err
}

// Resume finishes an Accept that was killed. It does not need the guest.
func (r *Review) Resume(ctx context.Context) error {
	_, err := r.History.Resume(ctx, r.key("real"), r.Real)
	return err
}

// Forget removes all trees of the review.
func (r *Review) Forget() (err error) {
	for _, tree := range []string{"upper", "real", "base", "accepted"} {
		err = errors.Join(err, r.History.Forget(r.key(tree)))
	}
	return err
}

// Version opens a changed file as the agent has it, or as the real folder does.
func (r *Review) Version(ctx context.Context, path string, agents bool) (io.Reader, error) {
	l, err := r.look(ctx, []string{path})
	if err != nil {
		return nil, err
	}
	tree := l.real
	if agents {
		tree = l.upper
	}
	e, err := r.History.Find(ctx, tree, path)
	if err == nil && e.Kind != history.File {
		err = fault.Newf(fault.NotFound, "read version", path, "it is not a file")
	}
	if err != nil {
		return nil, err
	}
	return r.History.Content(e)
}

// add takes an entry if its path names a file in the folder.
func (l *look) add(e Listed) error {
	l.names += len(e.Path) + len(e.Target)
	if len(l.listed) >= maxEntries || l.names > maxNames {
		return fault.Newf(fault.Rejected, "list changes", "", "there are more than %d changed files, or their names are too long", maxEntries).Advise("Let the agent delete what it does not need, or reject it by path.")
	}
	_, twice := l.listed[e.Path]
	switch {
	case twice, len(e.Path) > maxPath, len(e.Target) > maxPath, strings.Count(e.Path, "/") >= maxDepth, strings.Contains(e.Path+e.Target, "\x00"),
		e.Path == ".", !fs.ValidPath(strings.ToValidUTF8(e.Path, "?")), e.Size < 0, e.Size > maxFileSize,
		(e.Kind == history.Link) != (e.Target != ""),
		!slices.Contains([]history.Kind{history.File, history.Folder, history.Link, history.Special, history.Whiteout, history.Opaque}, e.Kind):
		return fault.Newf(fault.Rejected, "list changes", "", "the entry %.200q is malformed", e.Path).Advise("Unmount the folder and mount it again: its changes cannot be read.")
	}
	switch e.Mode &= fs.ModePerm; e.Kind {
	case history.Link:
		e.Mode, e.Size = 0, int64(len(e.Target))
	case history.File:
	case history.Folder, history.Opaque:
		e.Size, e.Mtime, e.Ctime, e.Inode = 0, 0, 0, 0
	default:
		e.Entry = history.Entry{Kind: e.Kind}
	}
	e.Content = history.Digest{}
	l.listed[e.Path] = e
	return nil
}

// take takes both sides into the history.
func (l *look) take() (err error) {
	entries := map[string]history.Entry{}
	var paths []string
	hidden := "\x00" // the last folder that is looked at with all that is in it
	for _, name := range slices.SortedFunc(maps.Keys(l.listed), history.ByPath) {
		if err := context.Cause(l.ctx); err != nil {
			return err
		}
		e := l.listed[name]
		if l.folded(name, l.isFolder(e)) {
			if e.Kind == history.File || e.Kind == history.Whiteout {
				l.rest.Ignored++
				l.rest.IgnoredBytes += e.Size
			}
			continue
		}
		entries[name] = e.Entry
		switch {
		case strings.HasPrefix(name, hidden):
		case e.Kind == history.Folder:
			paths = append(paths, name+"/")
		default:
			paths = append(paths, name)
			hidden = name + "/"
		}
	}
	l.last, _ = l.History.Head(l.key("upper"))
	open := func(path string) (io.ReadCloser, error) { return l.Upper.Open(l.ctx, path) }
	if l.upper, err = l.History.Edit(l.ctx, l.key("upper"), history.Digest{}, entries, open); err != nil {
		return err
	}
	l.base, _ = l.History.Head(l.key("base"))
	return l.takeReal(paths)
}

// takeReal takes paths of the real folder into the history, except for what is ignored.
func (l *look) takeReal(paths []string) error {
	if len(paths) == 0 { // which would be everything
		return nil
	}
	c, err := l.History.With(history.Options{Skip: l.folded}).Checkpoint(l.ctx, l.key("real"), l.Real, paths...)
	l.real = c.Tree
	return err
}

// folded reports whether a path is ignored and was not asked for.
func (l *look) folded(name string, folder bool) bool {
	return l.ignore.ignored(name, folder) && !l.ways[name] && !l.named(name)
}

// named reports whether one of the paths that were asked for is in a .git, or ignored, and covers a path that is
// so too.
func (l *look) named(name string) bool {
	git := inGit(name)
	return slices.ContainsFunc(l.covering(name), func(p string) bool {
		return git && inGit(p) || !git && l.ignore.ignored(p, p != name || l.isFolder(l.listed[p]))
	})
}

// covering returns the paths that were asked for and are a path or above it, the nearest first.
func (l *look) covering(name string) (list []string) {
	for at := name; len(l.paths) > 0; at = parent(at) {
		if _, ok := l.paths[at]; ok {
			list = append(list, at)
		}
		if at == "." {
			break
		}
	}
	return list
}

// isFolder reports whether an entry is a folder, or hides one.
func (l *look) isFolder(e Listed) bool {
	if e.Kind == history.Whiteout {
		info, err := l.Real.Lstat(e.Path)
		return err == nil && info.IsDir()
	}
	return e.Kind == history.Folder || e.Kind == history.Opaque
}

// ignoreFile reads a .gitignore as the agent sees it. What cannot be read ignores nothing.
func (l *look) ignoreFile(name string) string {
	var f io.ReadCloser
	var err error
	e, listed := l.listed[name]
	for dir := parent(name); !listed && dir != "."; dir = parent(dir) {
		above, ok := l.listed[dir]
		listed = ok && above.Kind != history.Folder // and hides it
	}
	switch {
	case e.Kind == history.File:
		f, err = l.Upper.Open(l.ctx, name)
	case listed:
		return ""
	default:
		info, missing := l.Real.Lstat(name)
		if missing != nil || !info.Mode().IsRegular() {
			return ""
		}
		f, err = nofollow.File(l.Real, name, info)
	}
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreText+1))
	if err != nil {
		return ""
	}
	return string(text)
}

// pair is a path in all trees. No entry is zero, and a folder that hides another one is a folder.
type pair struct {
	path              string
	upper, real, base history.Entry
	known             bool          // the base
	last              history.Entry // of the upper layer at the last look
	hid               bool          // the agent had replaced or removed it by then
	began             time.Time     // the agent's first change was not earlier, or zero
}

// each calls a function with all paths of the upper layer, and all that it hides in the real folder: folders
// before what is in them.
func (l *look) each(do func(pair) error) error {
	top := pair{upper: history.Entry{Kind: history.Folder, Content: l.upper}}
	top.real, top.base = history.Entry{Kind: history.Folder, Content: l.real}, history.Entry{Kind: history.Folder, Content: l.base}
	top.last = history.Entry{Kind: history.Folder, Content: l.last}
	return l.below(top, false, do)
}

func (l *look) below(p pair, hidden bool, do func(pair) error) error {
	upper, err := l.History.Tree(l.ctx, p.upper.Tree())
	if err != nil {
		return fault.Wrap("compare", p.path, err)
	}
	real, err := l.History.Tree(l.ctx, p.real.Tree())
	if err != nil {
		return fault.Wrap("compare", p.path, err)
	}
	base, _ := l.History.Tree(l.ctx, p.base.Tree())
	last, lost := l.History.Tree(l.ctx, p.last.Tree())
	hid := p.hid || lost != nil || p.last.Kind != 0 && p.last.Kind != history.Folder
	for name, row := range history.Align(upper, real, base, last) {
		q := pair{path: path.Join(p.path, name), upper: row[0], real: row[1], base: row[2], last: row[3], hid: hid, began: p.began}
		if q.upper.Kind == 0 && (!hidden || q.real.Kind == 0) {
			continue
		}
		if e, listed := l.listed[q.path]; listed {
			q.began = l.began(e, hid || q.last.Kind != 0 || q.real.Ctime%int64(time.Second) == 0)
		}
		q.known = p.known && p.base.Kind != history.Folder || q.base.Kind != 0
		hides := hidden || q.upper.Kind != history.Folder
		q.upper, q.real, q.base = seen(q.upper), seen(q.real), seen(q.base)
		if err := do(q); err != nil {
			return err
		}
		if q.upper.Kind == history.Folder || q.real.Kind == history.Folder {
			if err := l.below(q, hides, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// seen returns an entry of the upper layer as the agent sees it.
func seen(e history.Entry) history.Entry {
	switch e.Mode &= fs.ModePerm; e.Kind {
	case history.Opaque:
		e.Kind = history.Folder
	case history.Whiteout:
		return history.Entry{}
	}
	return e
}

// record notes what the agent's changes began with: the real version, if it is clearly older or if both are equal.
func (l *look) record() error {
	began := map[string]history.Entry{}
	err := l.each(func(p pair) error {
		agreed := p.upper.Same(p.real)
		switch older := older(p.real, p.began); {
		case agreed && p.known && p.base.Same(p.real), !agreed && p.known:
		case p.real.Kind == history.Folder, agreed, p.real.Kind == 0 && p.upper.Kind != history.Folder, older && p.real.Kind.Kept():
			began[p.path] = common(p.real)
		}
		return nil
	})
	if err != nil || len(began) == 0 {
		return err
	}
	return l.begin(began)
}

// begin notes what both sides have in common at some paths.
func (l *look) begin(entries map[string]history.Entry) (err error) {
	gone := map[string]history.Entry{} // also what is in a folder that is none anymore
	for name, e := range entries {
		if e.Kind != history.Folder {
			gone[name] = history.Entry{Kind: history.Whiteout}
		}
	}
	for _, edits := range []map[string]history.Entry{gone, entries} {
		if err == nil {
			l.base, err = l.History.Edit(l.ctx, l.key("base"), l.base, edits, nil)
		}
	}
	return err
}

// common returns an entry of the base: that there is no file is one, too.
func common(e history.Entry) history.Entry {
	if e.Kind == 0 {
		e.Kind = history.Whiteout
	}
	return e
}

// began returns a moment of this computer's clock before the agent's first change of an entry: by the guest's
// clock, or that of the last look if the agent had not touched it then, unless the real file's times are in
// seconds. What is much older than that look was ignored in it, or has got another name since.
func (l *look) began(e Listed, touched bool) time.Time {
	if e.Born.IsZero() {
		return time.Time{}
	}
	born, looked := e.Born.Add(-clockMargin), l.Looked.Add(-clockTick)
	if !touched && looked.After(born) && e.Born.After(l.Looked.Add(-clockMargin)) {
		return looked
	}
	return born
}

// older reports whether a file was last changed before a moment.
func older(e history.Entry, moment time.Time) bool {
	return time.Unix(0, max(e.Mtime, e.Ctime)).Before(moment)
}

// parent returns the folder of a path, or ".".
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

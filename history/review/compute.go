package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
)

const (
	// clockMargin is how far the guest's clock may be from the host's.
	clockMargin = 2 * time.Second
	// maxHunkText bounds the text of all hunks of one review. The others are without.
	maxHunkText = 16 << 20
	// maxKept bounds the texts that one review holds in memory.
	maxKept = 64 << 20
)

// scan is one look at the upper layer and the real folder.
type scan struct {
	*listing
	review *Review
	real   *realFolder
	ignore *ignorer
	marks  []mark
}

func (r *Review) scan(ctx context.Context) (*scan, error) {
	list, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	s := &scan{listing: list, review: r, real: newReal(r.Real), marks: newMarks()}
	s.ignore = &ignorer{read: func(path string) string { return s.ignoreFile(ctx, path) }, rules: map[string][]rule{}, known: map[string]bool{}}
	return s, s.expand()
}

// ignoreFile reads a .gitignore as the agent sees it. What cannot be read ignores nothing.
func (s *scan) ignoreFile(ctx context.Context, path string) string {
	var f io.ReadCloser
	e, listed := s.entries[path]
	seen, err := s.real.look(path)
	switch {
	case listed && e.Kind == File:
		f, err = s.review.Upper.Open(ctx, path)
	case listed || err != nil || seen.Kind != File:
		return ""
	default:
		f, err = s.real.open(path, seen.info)
	}
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile+1))
	if err != nil || len(text) > maxIgnoreFile {
		return ""
	}
	return string(text)
}

// folder reports whether an entry is a folder, or hides one.
func (s *scan) folder(e Entry) bool {
	if e.Kind == Whiteout {
		seen, err := s.real.look(e.Path)
		return err == nil && seen.Kind == Folder
	}
	return e.Kind == Folder || e.Kind == Opaque
}

// Compute compares the upper layer with the real folder. What is equal there, or what the
// agent has not touched since it was accepted or rejected, is no change.
func (r *Review) Compute(ctx context.Context, q Query) (*Changes, error) {
	s, err := r.scan(ctx)
	if err != nil {
		return nil, err
	}
	list, out, err := s.changes(ctx, newPathSet(q.Paths), nil)
	if err != nil {
		return nil, err
	}
	room := maxHunkText
	for _, c := range list {
		if q.Hunks {
			for i, h := range c.hunks() {
				if text := h.Text(); len(text) <= room {
					room -= len(text)
					c.Hunks[i].Text = text
				}
			}
		}
		out.Changes = append(out.Changes, c.Change)
	}
	return out, nil
}

// changes examines what the paths cover, and the folders in ways. Without paths, it examines everything
// that is not ignored.
func (s *scan) changes(ctx context.Context, paths pathSet, ways map[string]bool) ([]*change, *Changes, error) {
	var list, apart []*change
	out := &Changes{Changes: []Change{}}
	kept := 0 // bytes of texts
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		e := s.entries[name]
		if err := ctx.Err(); err != nil {
			return nil, nil, fault.Wrap("review changes", "", err)
		}
		ignored := s.ignore.ignored(name, s.folder(e)) && !inGit(name)
		if ignored && !ways[name] && !s.named(paths, name) {
			if e.Kind == File || e.Kind == Whiteout {
				out.Ignored++
				out.IgnoredBytes += e.Size
			}
			continue
		}
		if len(paths) > 0 && !ways[name] && len(paths.covering(name)) == 0 {
			continue
		}
		c, err := s.examine(ctx, e)
		if err != nil { // it is being written, or may not be read
			c = &change{Change: Change{Path: name, Type: Modified, Conflict: err.Error()}, broken: true}
		}
		if c == nil {
			continue
		}
		c.Git, c.Ignored = inGit(name), ignored
		if size := len(c.real.text) + len(c.text); kept+size <= maxKept {
			kept += size
		} else {
			c.real.text, c.text = nil, nil
		}
		if c.Git {
			apart = append(apart, c)
		} else {
			list = append(list, c)
		}
	}
	list = append(list, apart...)
	findRenames(list)
	return list, out, nil
}

// named reports whether one of the paths names a path in a .git, or an ignored one: it covers the path and
// is itself in a .git or ignored.
func (s *scan) named(paths pathSet, name string) bool {
	git := inGit(name)
	return slices.ContainsFunc(paths.covering(name), func(p string) bool {
		return git && inGit(p) || !git && s.ignore.ignored(p, p != name || s.folder(s.entries[p]))
	})
}

// pathSet holds clean paths and their places in a list.
type pathSet map[string]int

func newPathSet(list []string) pathSet {
	set := pathSet{}
	for i, p := range list {
		set[path.Clean(p)] = i
	}
	return set
}

// covering returns those that are a path or above it, the nearest first.
func (s pathSet) covering(name string) []string {
	var list []string
	for at := name; len(s) > 0; at = parent(at) {
		if _, ok := s[at]; ok {
			list = append(list, at)
		}
		if at == "." {
			break
		}
	}
	return list
}

func findRenames(list []*change) {
	gone := map[[32]byte]string{}
	for _, c := range list {
		if c.Before.Kind == File && c.After.Kind != File && c.Before.Size > 0 {
			gone[c.Before.Digest] = c.Path
		}
	}
	for _, c := range list {
		if c.After.Kind == File && c.Before.Kind != File {
			c.RenamedFrom = gone[c.After.Digest]
		}
	}
}

// change is a Change with what Accept needs. It writes the text, or the file of the upper layer if that
// is not text.
type change struct {
	Change
	real  sighting
	upper Version
	text  []byte
	// broken changes could not be examined. They are never accepted or rejected.
	broken bool
}

// hunks returns the difference of the texts, or nothing if a file is not text.
func (c *change) hunks() []diff.Hunk {
	if c.Before.Kind == File && c.real.text == nil || c.After.Kind == File && c.text == nil || c.Before.Digest == c.After.Digest {
		return nil
	}
	return diff.Hunks(string(c.real.text), string(c.text))
}

// examine compares one path. It returns nil if there is no change.
func (s *scan) examine(ctx context.Context, e Entry) (*change, error) {
	real, err := s.real.read(e.Path)
	if err != nil {
		return nil, err
	}
	c := &change{real: real}
	c.Path, c.Before = e.Path, real.Version
	if c.upper, c.text, err = s.version(ctx, e); err != nil || c.upper == real.Version {
		return nil, err
	}
	base, err := s.review.Bases.Base(ctx, e.Path)
	switch {
	case err == nil:
		c.BaseKnown = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fault.Wrap("look up base", e.Path, err)
	case real.info == nil, real.Kind == Folder, older(real.info, e.Born):
		base = real.Version // the agent began with it
	default:
		c.Conflict = "it changed in the real folder too, and the version that the agent began with is not known"
	}
	c.After = c.upper
	if c.Conflict == "" {
		c.Conflict = s.settle(ctx, c, base)
	}
	if c.After == real.Version {
		return nil, nil
	}
	c.describe()
	c.Runs = s.runs(c.Path, c.Before, c.After)
	return c, nil
}

// version reads what an entry of the upper layer is.
func (s *scan) version(ctx context.Context, e Entry) (v Version, text []byte, err error) {
	switch e.Kind {
	case Whiteout:
	case Folder, Opaque:
		v = Version{Kind: Folder, Mode: e.Mode}
	case Symlink:
		v = Version{Kind: Symlink, Target: e.Target}
	case File:
		v = Version{Kind: File, Mode: e.Mode, Size: e.Size}
		f, err := s.review.Upper.Open(ctx, e.Path)
		if err != nil {
			return v, nil, err
		}
		defer f.Close()
		v.Digest, text, err = digest(f, e.Size)
		return v, text, err
	default:
		v.Kind = Other
	}
	return v, nil, nil
}

// settle decides what becomes of a path that is different in the upper layer and the real folder. It
// returns why that is a conflict, or "".
func (s *scan) settle(ctx context.Context, c *change, base Version) (conflict string) {
	merged, text := c.upper, c.text
	switch {
	case c.upper == base: // only somebody on the host has changed it
		c.After = c.Before
		return ""
	case c.Before == base:
		return ""
	case c.upper.Kind == Nothing || c.Before.Kind == Nothing:
		return "one side deleted what the other changed"
	case c.upper.Kind != c.Before.Kind || base.Kind != c.upper.Kind || c.upper.Kind != File && c.upper.Kind != Folder:
		return "both sides changed what it is"
	case c.upper.Mode == base.Mode:
		merged.Mode = c.Before.Mode
	case c.Before.Mode != base.Mode && c.Before.Mode != c.upper.Mode:
		return "both sides changed its mode"
	}
	switch {
	case c.upper.Digest == base.Digest:
		merged.Digest, merged.Size, text = c.Before.Digest, c.Before.Size, c.real.text
	case c.Before.Digest != base.Digest && c.Before.Digest != c.upper.Digest:
		old := s.baseText(ctx, c.Path, base)
		if old == nil || c.text == nil || c.real.text == nil {
			return "both sides changed it, and it cannot be merged as text"
		}
		joined, clean := diff.Merge(string(old), string(c.real.text), string(c.text))
		if !clean {
			return "both sides changed the same part of it"
		}
		text = []byte(joined)
		merged.Digest, merged.Size = sha256.Sum256(text), int64(len(text))
	}
	c.After, c.text, c.Merged = merged, text, merged != c.upper
	return ""
}

// baseText returns nil if the base cannot be read, or changed while it was remembered.
func (s *scan) baseText(ctx context.Context, path string, base Version) []byte {
	f, err := s.review.Bases.Open(ctx, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	sum, text, err := digest(f, base.Size)
	if err != nil || sum != base.Digest {
		return nil
	}
	return text
}

// describe fills in what follows from the versions.
func (c *change) describe() {
	switch before, after := c.Before, c.After; {
	case before.Kind == Nothing:
		c.Type = Added
	case after.Kind == Nothing:
		c.Type = Deleted
	case before.Kind != after.Kind:
		c.Type = KindChanged
	case before.Digest == after.Digest && before.Target == after.Target:
		c.Type = ModeChanged
	default:
		c.Type = Modified
	}
	c.Binary = c.Before.Kind == File && c.real.text == nil || c.After.Kind == File && c.text == nil
	for i, h := range c.hunks() {
		added, removed := h.Size()
		c.Hunks = append(c.Hunks, Hunk{Number: i + 1})
		c.LinesAdded, c.LinesGone = c.LinesAdded+added, c.LinesGone+removed
	}
	agent := sha256.Sum256(fmt.Appendf(nil, "%q %v", c.Path, c.upper))
	host := sha256.Sum256(fmt.Appendf(nil, "%v %v", c.Before, c.After))
	c.ID = fmt.Sprintf("%x.%x", agent[:16], host[:8])
}

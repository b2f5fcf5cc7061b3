package history

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"

	"osaurus-sandbox/internal/diff"
)

// MaxText is the largest text that is compared and merged by lines: people do not read more.
const MaxText = 2 << 20

// entryOf returns the entry with a name, or the zero Entry.
func entryOf(entries []Entry, name string) Entry {
	i, found := slices.BinarySearchFunc(entries, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
	if !found {
		return Entry{}
	}
	return entries[i]
}

// Align yields the entries of trees by name, one of each tree. The zero Entry stands for a missing one.
func Align(trees ...[]Entry) iter.Seq2[string, []Entry] {
	return func(yield func(string, []Entry) bool) {
		for left := slices.Clone(trees); ; {
			name := ""
			for _, list := range left {
				if len(list) > 0 && (name == "" || list[0].Name < name) {
					name = list[0].Name
				}
			}
			row := make([]Entry, len(left))
			for i, list := range left {
				if len(list) > 0 && list[0].Name == name {
					row[i], left[i] = list[0], list[1:]
				}
			}
			if name == "" || !yield(name, row) {
				return
			}
		}
	}
}

// what compares two entries. At most one may be zero. It returns "" if they are equal
// themselves; the contents of folders may differ.
func what(x, y Entry) What {
	switch {
	case x.Kind == 0:
		return Added
	case y.Kind == 0:
		return Removed
	case x.Kind != y.Kind, x.Kind != Folder && (x.Size != y.Size || x.Content != y.Content || x.Target != y.Target):
		return Modified
	case x.Mode != y.Mode:
		return Mode
	}
	return ""
}

// Diff yields the changes from one tree to another: folders before their contents, names in the order
// of their bytes. With paths, only changes at or below them. The last pair has the error, if any.
func (h *History) Diff(ctx context.Context, from, to Digest, paths ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		selected, err := parsePaths(paths)
		if err == nil {
			_, err = h.diff(ctx, "", from, to, selected, func(c Change) bool { return yield(c, nil) })
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

// diff reports whether to go on.
func (h *History) diff(ctx context.Context, path string, from, to Digest, paths selection, yield func(Change) bool) (bool, error) {
	before, err := h.Tree(ctx, from)
	if err != nil {
		return false, err
	}
	after, err := h.Tree(ctx, to)
	if err != nil {
		return false, err
	}
	for name, row := range Align(before, after) {
		x, y, at := row[0], row[1], join(path, name)
		inside, above := paths.has(at)
		if w := what(x, y); w != "" && inside && !yield(Change{at, w, x, y}) {
			return false, nil
		}
		a, b := x.Tree(), y.Tree()
		if a == b || !inside && !above {
			continue
		}
		if more, err := h.diff(ctx, at, a, b, paths, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// Tree returns the tree of a folder's entry; other entries have the one without entries.
func (e Entry) Tree() Digest {
	if e.Kind != Folder && e.Kind != Opaque {
		return Digest{}
	}
	return e.Content
}

// Text returns the content of a file, or "" of anything else. It reports false if that is longer than MaxText or
// has a NUL.
func (h *History) Text(ctx context.Context, e Entry) (string, bool, error) {
	if err := context.Cause(ctx); err != nil || e.Kind != File || e.Size > MaxText {
		return "", e.Kind != File, err
	}
	text, err := h.store.Read(e.Content) // it is no list of chunks
	return string(text), bytes.IndexByte(text, 0) < 0, err
}

// Compare compares two texts.
func Compare(before, after string) (l Lines) {
	for _, h := range diff.Hunks(before, after) {
		added, removed := h.Size()
		l.Added, l.Removed, l.Hunks = l.Added+added, l.Removed+removed, append(l.Hunks, h.Text())
	}
	return l
}

// Lines compares the contents of a change, or the targets of links.
func (h *History) Lines(ctx context.Context, c Change) (Lines, error) {
	var texts [2]string
	for i, e := range []Entry{c.Before, c.After} {
		text, plain, err := h.Text(ctx, e)
		if err != nil || !plain {
			return Lines{Binary: err == nil}, err
		}
		texts[i] = text + e.Target
	}
	return Compare(texts[0], texts[1]), nil
}

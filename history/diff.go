package history

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

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

// merge yields the entries of two trees by name. The zero Entry stands for a missing one.
func merge(a, b []Entry) iter.Seq2[Entry, Entry] {
	return func(yield func(Entry, Entry) bool) {
		for len(a) > 0 || len(b) > 0 {
			var x, y Entry
			if len(b) == 0 || len(a) > 0 && a[0].Name <= b[0].Name {
				x = a[0]
			}
			if len(a) == 0 || len(b) > 0 && b[0].Name <= a[0].Name {
				y = b[0]
			}
			if x.Kind != 0 {
				a = a[1:]
			}
			if y.Kind != 0 {
				b = b[1:]
			}
			if !yield(x, y) {
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
	for x, y := range merge(before, after) {
		at := join(path, cmp.Or(x.Name, y.Name))
		inside, above := paths.has(at)
		if w := what(x, y); w != "" && inside && !yield(Change{at, w, x, y}) {
			return false, nil
		}
		a, b := subtree(x), subtree(y)
		if a == b || !inside && !above {
			continue
		}
		if more, err := h.diff(ctx, at, a, b, paths, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// subtree is the tree of a folder's entry; other entries have the one without entries.
func subtree(e Entry) Digest {
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

// Lines compares the contents of a change.
func (h *History) Lines(ctx context.Context, c Change) (l Lines, err error) {
	if max(c.Before.Size, c.After.Size) > MaxText {
		return Lines{TooLarge: true}, nil
	}
	var texts [2]string
	for i, e := range []Entry{c.Before, c.After} {
		var plain bool
		if texts[i], plain, err = h.Text(ctx, e); err != nil {
			return Lines{}, err
		}
		if e.Kind == Link {
			texts[i] = e.Target
		}
		if !plain || !utf8.ValidString(texts[i]) {
			return Lines{Binary: true}, nil
		}
	}
	name := c.Path
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` { // as git does
		name = quoted
	}
	for _, h := range diff.Hunks(texts[0], texts[1]) {
		added, removed := h.Size()
		l.Added, l.Removed = l.Added+added, l.Removed+removed
	}
	l.Diff = diff.Unified(name, texts[0], texts[1])
	return l, nil
}

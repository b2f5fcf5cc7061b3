//go:build linux

package layers

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
)

// Kind is the kind of a Change.
type Kind int

const (
	Added Kind = iota + 1
	Changed
	Deleted
)

// Change is a path that differs. An added or deleted folder stands for everything in it.
type Change struct {
	Path   string // absolute
	Folder bool
	Kind   Kind
}

// Diff lists what has changed since a snapshot of a room, by path, and reports whether there is more.
func (s *Store) Diff(st *Stack, since Snapshot) (list []Change, more bool, err error) {
	d := differ{}
	err = d.compare("", append(s.Paths(since.Layers), s.Base), append(s.Paths(append(slices.Clone(st.Lower), st.Upper)), s.Base))
	if d.more {
		err = nil
	}
	return d.list, d.more, err
}

type differ struct {
	list []Change
	more bool
}

func (d *differ) add(path string, n *node, kind Kind) {
	if d.more = len(d.list) >= engine.MaxPathChanges; !d.more {
		d.list = append(d.list, Change{path, n.isDir(), kind})
	}
}

// compare compares a folder then and now, both given by their parts.
func (d *differ) compare(at string, then, now []string) error {
	before, err := list(then)
	if err != nil {
		return err
	}
	after, err := list(now)
	if err != nil {
		return err
	}
	for _, nodes := range []map[string]*node{before, after} {
		maps.DeleteFunc(nodes, func(_ string, n *node) bool { return n.whiteout() })
	}
	paths := slices.Collect(maps.Keys(after))
	for name := range before {
		if after[name] == nil {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	for _, name := range paths {
		was, is, path := before[name], after[name], at+"/"+name
		switch {
		case d.more:
			return nil
		case was == nil:
			d.add(path, is, Added)
		case is == nil:
			d.add(path, was, Deleted)
		case differs(was, is):
			d.add(path, is, Changed)
		}
		if was != nil && is != nil && was.isDir() && is.isDir() && !slices.Equal(was.dirs, is.dirs) {
			if err := d.compare(path, was.dirs, is.dirs); err != nil {
				return err
			}
		}
	}
	return nil
}

// differs compares what the two are, but no contents: copying a file up keeps its size and time.
func differs(was, is *node) bool {
	a, b := was.stat, is.stat
	if was.path == is.path {
		return false
	}
	if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev {
		return true
	}
	switch a.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return false
	default:
		return a.Size != b.Size || a.Mtim != b.Mtim
	}
}

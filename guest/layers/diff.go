//go:build linux

package layers

import (
	"maps"
	"slices"

	"osaurus-sandbox/engine"
)

// Diff lists what has changed since a snapshot of a room, as engine.Snapshots does.
func (s *Store) Diff(st *Stack, since Snapshot) ([]string, error) {
	return compare(nil, "", s.Paths(since.Layers...), s.Paths(append(slices.Clone(st.Lower), st.Upper)...))
}

// compare adds the differences between a folder then and now, both given by their parts, to a list.
func compare(found []string, at string, then, now []string) ([]string, error) {
	before, err := list(then)
	if err != nil {
		return nil, err
	}
	after, err := list(now)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is, path := before[name].shown(), after[name].shown(), at+"/"+name
		if len(found) >= engine.MaxPathChanges {
			break
		}
		switch {
		case was == nil && is == nil:
		case was == nil:
			found = append(found, is.change("+ ", path))
		case is == nil:
			found = append(found, was.change("- ", path))
		default:
			if differs(was, is) {
				found = append(found, is.change("~ ", path))
			}
			if was.isDir() && is.isDir() && !slices.Equal(was.dirs, is.dirs) {
				if found, err = compare(found, path, was.dirs, is.dirs); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// change describes a change of a path.
func (n *node) change(sign, path string) string {
	if n.isDir() {
		path += "/"
	}
	return sign + path
}

// differs compares what the two are, but no contents: copying a file up keeps its size and time.
func differs(was, is *node) bool {
	a, b := &was.stat, &is.stat
	return was.path != is.path && (a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev ||
		!is.isDir() && (a.Size != b.Size || a.Mtim != b.Mtim))
}

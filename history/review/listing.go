package review

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Limits of a listing, which comes from the guest. Beyond them the review is refused.
const (
	maxEntries  = 200_000        // a large node_modules has 100,000
	maxNames    = 64 << 20       // bytes of all paths and targets: memory
	maxPath     = 4096           // PATH_MAX of Linux
	maxName     = 255            // NAME_MAX of Linux
	maxDepth    = 256            // each level costs a descriptor while it is opened
	maxFileSize = int64(1) << 50 // more than a data disk holds
)

// listing collects the entries of an upper layer, which are hostile, by path.
type listing struct {
	entries map[string]Entry
	names   int
}

func (r *Review) list(ctx context.Context) (*listing, error) {
	l := &listing{entries: map[string]Entry{}}
	for e, err := range r.Upper.List(ctx) {
		if err != nil {
			return nil, fault.Wrap("list changes", "", err)
		}
		if err := l.add(e); err != nil {
			return nil, err
		}
	}
	return l, l.nested()
}

// add takes one entry that names a path inside of the folder.
func (l *listing) add(e Entry) error {
	refuse := func(why string) error {
		return fault.Newf(fault.Rejected, "list changes", "", "%.200q %s", e.Path, why).Advise("Unmount the folder and mount it again: its changes cannot be read.")
	}
	parts := strings.Split(e.Path, "/")
	l.names += len(e.Path) + len(e.Target)
	switch {
	case len(l.entries) >= maxEntries || l.names > maxNames:
		return fault.Newf(fault.Rejected, "list changes", "", "there are more than %d", maxEntries).Advise("Let the agent delete what it does not need, or reject it by path.")
	case len(e.Path) > maxPath || len(parts) > maxDepth || len(e.Target) > maxPath:
		return refuse("is too long")
	case strings.ContainsRune(e.Path+e.Target, 0):
		return refuse("has a zero byte")
	case slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." || len(p) > maxName }):
		return refuse("is no path in the folder")
	case e.Size < 0 || e.Size > maxFileSize:
		return refuse("has an impossible size")
	case (e.Kind == Symlink) != (e.Target != ""):
		return refuse("is half a symlink")
	case !slices.Contains([]Kind{File, Folder, Symlink, Other, Whiteout, Opaque}, e.Kind):
		return refuse("has an unknown kind")
	}
	if _, twice := l.entries[e.Path]; twice {
		return refuse("is listed twice")
	}
	e.Mode &= fs.ModePerm
	l.entries[e.Path] = e
	return nil
}

// nested checks that only folders have something in them.
func (l *listing) nested() error {
	for path := range l.entries {
		for dir := parent(path); dir != "."; dir = parent(dir) {
			if e, ok := l.entries[dir]; ok && e.Kind != Folder && e.Kind != Opaque {
				return fault.Newf(fault.Rejected, "list changes", "", "%.200q is in a %s", path, e.Kind).Advise("Unmount the folder and mount it again: its changes cannot be read.")
			}
		}
	}
	return nil
}

// expand adds a whiteout for all that an entry hides in the real folder: everything below
// a whiteout, an opaque folder, or what is no folder any more.
func (s *scan) expand() error {
	for _, path := range slices.Sorted(maps.Keys(s.entries)) {
		if e := s.entries[path]; e.Kind != Folder {
			if err := s.hide(path, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scan) hide(dir string, by Entry) error {
	names, err := s.real.names(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it cannot be removed either
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := dir + "/" + name
		e, listed := s.entries[path]
		if !listed {
			e = Entry{Path: path, Kind: Whiteout, Born: by.Born}
			if err := s.add(e); err != nil {
				return err
			}
		}
		if !listed || e.Kind == Folder {
			if err := s.hide(path, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// parent returns the folder of a path, or ".".
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

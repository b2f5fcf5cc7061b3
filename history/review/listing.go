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
	maxDepth    = 256            // each level is looked up for each path in it
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

// add takes an entry if its path names a file in the folder.
func (l *listing) add(e Entry) error {
	l.names += len(e.Path) + len(e.Target)
	if len(l.entries) >= maxEntries || l.names > maxNames {
		return fault.Newf(fault.Rejected, "list changes", "", "there are more than %d changed files, or their names are too long", maxEntries).Advise("Let the agent delete what it does not need, or reject it by path.")
	}
	_, twice := l.entries[e.Path]
	switch {
	case twice, len(e.Path) > maxPath, len(e.Target) > maxPath, strings.Count(e.Path, "/") >= maxDepth, strings.Contains(e.Path+e.Target, "\x00"),
		e.Path == ".", !fs.ValidPath(strings.ToValidUTF8(e.Path, "?")), e.Size < 0, e.Size > maxFileSize,
		(e.Kind == Symlink) != (e.Target != ""), !slices.Contains([]Kind{File, Folder, Symlink, Other, Whiteout, Opaque}, e.Kind):
		return malformed(e.Path)
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
				return malformed(path)
			}
		}
	}
	return nil
}

func malformed(path string) error {
	return fault.Newf(fault.Rejected, "list changes", "", "the entry %.200q is malformed", path).Advise("Unmount the folder and mount it again: its changes cannot be read.")
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
	for name := range names {
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

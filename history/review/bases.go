package review

import (
	"context"
	"errors"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// RecordBases remembers the real content of what the agent has changed since the last
// time, where the real file is clearly older than the change, and where there is none.
// It goes on with the others when one fails. Call it after each tool call: later, a file that was replaced looks younger.
func (r *Review) RecordBases(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.scan(ctx)
	if err != nil {
		return err
	}
	var failed error // the first
	for path, e := range s.entries {
		if s.ignore.ignored(path, s.folder(e)) && !inGit(path) {
			continue
		}
		if _, err := r.Bases.Base(ctx, path); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap("look up base", path, err)
		}
		seen, err := s.real.look(path)
		if err != nil || seen.info == nil && s.folder(e) || seen.info != nil && (seen.Kind == Folder || seen.Kind == Other || !older(seen.info, e.Born)) {
			continue
		}
		if seen, err = s.real.read(path); err == nil {
			err = s.remember(ctx, path, seen.Version, false)
		}
		if err != nil && failed == nil {
			failed = fault.Wrap("remember base", path, err)
		}
	}
	return failed
}

package review

import (
	"context"
	"errors"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// RecordBases remembers the real version of what the agent has changed since the last call, if the real
// file is clearly older than the change or there is none. It returns the first error, after trying the
// other files. Call it after each tool call: a real file that is edited later is no longer older.
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

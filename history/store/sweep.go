package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// digest is the inverse of object.
func digest(path string) (Digest, error) {
	return ParseDigest(filepath.Base(filepath.Dir(path)) + filepath.Base(path))
}

// Sweep deletes the objects that mark does not keep, and returns their number and bytes. Objects of
// batches that run at any time between the call of mark and its end stay. If mark fails, so do all. The caller
// sweeps once at a time.
func (s *Store) Sweep(ctx context.Context, mark func(keep map[Digest]bool) error) (objects int, bytes int64, err error) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLocked()
	}()
	keep := map[Digest]bool{}
	if err := mark(keep); err != nil {
		return 0, 0, err
	}
	err = s.each(func(path string, info fs.FileInfo) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d, err := digest(path)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && (keep[d] || s.pinnedLocked(d, nil)) {
			return nil
		}
		if err := s.deleteLocked(path); err != nil {
			return err
		}
		objects, bytes = objects+1, bytes+info.Size()
		return nil
	})
	return objects, bytes, err
}

// Verify reads all objects and returns those that are damaged, which it moves away: when the same
// content is put again, it is stored again.
func (s *Store) Verify(ctx context.Context) (damaged []Digest, err error) {
	err = s.each(func(path string, info fs.FileInfo) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d, err := digest(path)
		if err != nil {
			return nil // no object
		}
		if _, err := s.Read(d); err == nil || errors.Is(err, fs.ErrNotExist) { // it may have been swept meanwhile
			return nil
		}
		damaged = append(damaged, d)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.used >= 0 {
			s.used -= info.Size()
		}
		return os.Rename(path, filepath.Join(s.path("damaged"), d.String()))
	})
	return damaged, err
}

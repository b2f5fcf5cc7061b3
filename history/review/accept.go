package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// usable lets the daemon fill a folder. Its mode is set when that is done.
const usable fs.FileMode = 0o700

// Accept writes what is selected to the real folder, each file atomically, and remembers it
// as the base of the agent's next changes. It touches neither version of what it leaves. If it fails, the
// report still says what was done.
func (r *Review) Accept(ctx context.Context, sel Selection) (*Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.resume(); err != nil {
		return nil, err
	}
	s, err := r.scan(ctx)
	if err != nil {
		return nil, err
	}
	all, report, err := s.choose(ctx, sel, func(c *change) bool { return c.After.Kind == Folder && c.Before.Kind == Nothing })
	if err != nil {
		return nil, err
	}
	var list []chosen
	for _, c := range inOrder(all, func(c chosen) bool { return c.After.Kind == Nothing }) {
		if why := s.refuse(c, sel); why != "" {
			report.leave(c.Path, why)
		} else {
			list = append(list, c)
		}
	}
	j, err := r.begin(list)
	if err != nil {
		return report, err
	}
	err = s.acceptAll(ctx, j, list, report)
	return report, errors.Join(err, r.finish())
}

// refuse says why a change is not accepted, or "".
func (s *scan) refuse(c chosen, sel Selection) string {
	switch {
	case c.broken, c.Conflict != "" && !sel.AcceptConflicts:
		return c.Conflict
	case c.Conflict != "" && c.hunks != nil:
		return "a conflict is accepted as a whole or not at all"
	case c.After.Kind == Other:
		return "it is not a file, folder or link"
	case c.After.Kind == Symlink && !sel.OutsideLinks && leadsOut(c.Path, c.After.Target):
		return "the link leads out of the folder, or into a .git"
	}
	return ""
}

// acceptAll accepts one change after the other, and stops when the disk is full.
func (s *scan) acceptAll(ctx context.Context, j *journal, list []chosen, report *Report) error {
	modes := map[string]fs.FileMode{}
	blocked := map[string]bool{} // folders that are not there
	for i, c := range list {
		err, placed := ctx.Err(), false
		if blocked[parent(c.Path)] {
			err = errNoFolder
		} else if err == nil {
			placed, err = s.accept(ctx, j, i, c)
		}
		if placed {
			done := Outcome{Path: c.Path, Merged: c.Merged}
			if err != nil { // later changes may be conflicts
				done.Reason = "its base is not remembered: " + err.Error()
			}
			report.Done = append(report.Done, done)
			if c.After.Kind == Folder {
				modes[c.Path] = c.After.Mode
			}
		} else {
			report.leave(c.Path, err.Error())
			blocked[c.Path] = true
		}
		if ctx.Err() != nil || full(err) {
			for _, rest := range list[i+1:] {
				report.leave(rest.Path, "not tried")
			}
			return fault.Wrap("accept", c.Path, err)
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if mode, ok := modes[list[i].Path]; ok && mode&usable != usable {
			if err := s.chmod(list[i].Path, mode); err != nil {
				return fault.Wrap("set mode", list[i].Path, err)
			}
		}
	}
	return nil
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// accept reports whether a change is in the real folder. Then an error is about its base.
func (s *scan) accept(ctx context.Context, j *journal, i int, c chosen) (placed bool, err error) {
	want, text := c.After, c.text
	if c.hunks != nil {
		text = c.part(true)
		want = Version{Kind: File, Mode: c.Before.Mode, Size: int64(len(text)), Digest: sha256.Sum256(text)}
	}
	dir, err := nofollow.Folder(s.review.Real, parent(c.Path))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err := s.put(ctx, j, i, dir, c, want, text); err != nil {
		return false, err
	}
	s.review.reach("placed")
	switch {
	case c.hunks != nil && c.Merged:
		return true, nil // both sides still have the old base in common
	case c.Merged: // the agent's version is no change any more
		return true, s.remember(ctx, c.Path, c.upper, true)
	}
	return true, s.remember(ctx, c.Path, want, false)
}

// put makes one path what is wanted, if it still is what was seen.
func (s *scan) put(ctx context.Context, j *journal, i int, dir *os.Root, c chosen, want Version, text []byte) error {
	name, temp, ready := path.Base(c.Path), j.temp(i), j.ready(i)
	check := func() error {
		info, err := dir.Lstat(name)
		if err = present(err); err == nil && !unchanged(info, c.real.info) {
			err = errChanged
		}
		return err
	}
	if err := check(); err != nil {
		return err
	}
	switch {
	case want.Kind == Nothing:
		return dir.Remove(name)
	case want.Kind == Folder && c.Before.Kind == Folder:
		return s.chmod(c.Path, want.Mode|usable)
	}
	defer dir.Remove(temp) // it is gone if all went well
	if err := s.make(ctx, dir, temp, c, want, text); err != nil {
		return err
	}
	s.review.reach("written")
	if err := check(); err != nil {
		return err
	}
	if c.Before.Kind == Nothing || (c.Before.Kind == Folder) == (want.Kind == Folder) {
		return dir.Rename(temp, name)
	}
	if err := dir.Rename(temp, ready); err != nil { // the new one is whole: Resume puts it in place
		return err
	}
	s.review.reach("ready")
	if err := dir.Remove(name); err != nil {
		return errors.Join(err, dir.Remove(ready))
	}
	s.review.reach("removed")
	return dir.Rename(ready, name)
}

// make makes what is wanted under a temporary name.
func (s *scan) make(ctx context.Context, dir *os.Root, temp string, c chosen, want Version, text []byte) error {
	switch want.Kind {
	case Symlink:
		return dir.Symlink(want.Target, temp)
	case Folder:
		return errors.Join(dir.Mkdir(temp, usable), dir.Chmod(temp, want.Mode|usable))
	}
	var from io.ReadCloser
	var err error
	switch {
	case text != nil:
		from = io.NopCloser(bytes.NewReader(text))
	case c.Before.Kind == File && c.Before.Digest == want.Digest:
		from, err = s.real.open(c.Path, c.real.info)
	default:
		from, err = s.review.Upper.Open(ctx, c.Path)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := dir.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(from, want.Size+1))
	if err == nil && [32]byte(hash.Sum(nil)) != want.Digest {
		err = errChanged
	}
	return errors.Join(err, f.Chmod(want.Mode), f.Sync(), f.Close())
}

func (s *scan) chmod(name string, mode fs.FileMode) error {
	dir, err := nofollow.Folder(s.review.Real, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chmod(".", mode)
}

// remember notes what the agent and the real folder now have in common: the agent's version or the
// real one.
func (s *scan) remember(ctx context.Context, name string, v Version, agents bool) error {
	if v.Kind != File {
		return s.review.Bases.Remember(ctx, name, v, nil)
	}
	var f io.ReadCloser
	var err error
	if agents {
		f, err = s.review.Upper.Open(ctx, name)
	} else {
		f, err = s.real.open(name, nil)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return s.review.Bases.Remember(ctx, name, v, f)
}

// reach is where tests stop.
func (r *Review) reach(point string) {
	if r.reached != nil {
		r.reached(point)
	}
}

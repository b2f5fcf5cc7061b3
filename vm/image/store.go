package image

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

// A store has a folder for each kind of part, in which are
//
//	LABEL-KEY/   the parts: their files and seal.json
//	building/    one that is being built, or was when its builder was killed
//	lock         held while one is built or removed
const (
	building = "building"
	lockName = "lock"
	// keyDigits are enough of a key that no two are alike.
	keyDigits = 16
	// keep is how many parts of a label are kept: the present and the one
	// before, for whoever goes back to the previous version.
	keep = 2
)

// ensure returns the part of a key. Where there is none, it is built in a
// folder of its own, sealed, and only then put in its place: whoever is killed
// in between leaves nothing that could be taken for a part.
func (s Store) ensure(ctx context.Context, kind, label string, key pack.Digest, report progress.Func,
	build func(ctx context.Context, dir string) error) (part, error) {
	dir := s.place(kind, label, key)
	folder := filepath.Dir(dir)
	if p, ok := use(dir); ok {
		return p, nil
	}
	held, err := pack.AcquireLock(ctx, filepath.Join(folder, lockName), func(owner string) {
		report.Note("waiting for " + owner + ", which is building an image")
	})
	if err != nil {
		return part{}, err
	}
	defer held.Release()
	if p, ok := use(dir); ok { // someone else has built it
		return p, nil
	}
	p, err := buildPart(ctx, folder, dir, build)
	if err != nil {
		return part{}, err
	}
	return p, prune(folder, label)
}

// place is where the part of a key is.
func (s Store) place(kind, label string, key pack.Digest) string {
	return filepath.Join(s.Dir, kind, label+"-"+key.String()[:keyDigits])
}

// buildPart builds a part. The caller has the lock of the folder.
func buildPart(ctx context.Context, folder, dir string, build func(ctx context.Context, dir string) error) (_ part, err error) {
	const op = "build image"
	temp := filepath.Join(folder, building)
	// What is left of a killed builder, and what has no readable seal, goes.
	for _, old := range []string{temp, dir} {
		if err := os.RemoveAll(old); err != nil {
			return part{}, fault.New(fault.Execution, op, old, err)
		}
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return part{}, fault.New(fault.Execution, op, temp, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := build(ctx, temp); err != nil {
		return part{}, fault.Wrap(op, "", err)
	}
	s, err := newSeal(ctx, temp)
	if err != nil {
		return part{}, fault.Wrap(op, temp, err)
	}
	if err := syncAll(temp); err != nil {
		return part{}, fault.New(fault.Execution, op, temp, err)
	}
	if err := errors.Join(os.Rename(temp, dir), config.Sync(folder)); err != nil {
		return part{}, fault.New(fault.Execution, op, dir, err)
	}
	return part{dir, s}, nil
}

// DiscardBroken verifies an image, and removes what is broken of it, so that
// Ensure builds that again. Why it was broken is the first result. Where it
// cannot be told whether the image is whole, nothing is removed, and the second
// says why: see broken. What is whole stays: a baked base takes long to make,
// and may need a network.
func (s Store) DiscardBroken(ctx context.Context, i Image) (why, err error) {
	for _, p := range []part{i.boot, i.base} {
		wrong := p.verify(ctx)
		if wrong == nil {
			continue
		}
		if !broken(wrong) {
			return why, wrong
		}
		if err := discard(ctx, p); err != nil {
			return why, err
		}
		why = cmp.Or(why, wrong)
	}
	return why, nil
}

// discard removes a broken part, unless another program has built it again
// since that was seen.
func discard(ctx context.Context, p part) error {
	held, err := pack.AcquireLock(ctx, filepath.Join(filepath.Dir(p.dir), lockName), nil)
	if err != nil {
		return err
	}
	defer held.Release()
	if now, err := openPart(p.dir); err == nil && now.verify(ctx) == nil {
		return nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fault.New(fault.Execution, "discard image", p.dir, err)
	}
	return nil
}

// broken reports whether an error of verify means that the part itself is: a
// file is missing or changed, or the disk cannot read it any more. Any other,
// such as too many open files or an end of the context, says nothing of it.
func broken(err error) bool {
	kind := fault.KindOf(err)
	return err != nil && (kind == fault.Rejected || kind == fault.NotFound || errors.Is(err, syscall.EIO))
}

// Clear removes every image. A machine that runs from one of them has its files
// open, and loses nothing.
func (s Store) Clear(ctx context.Context) error {
	for _, kind := range []string{bootKind, baseKind, bakedKind} {
		folder := filepath.Join(s.Dir, kind)
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fault.New(fault.Execution, "remove images", folder, err)
		}
		held, err := pack.AcquireLock(ctx, filepath.Join(folder, lockName), nil)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
			}
		}
		held.Release()
		if err != nil {
			return fault.New(fault.Execution, "remove images", folder, err)
		}
	}
	return nil
}

// prune removes all but the last used parts of a label. A machine that runs
// from one of them has its files open, and loses nothing. The caller has the
// lock of the folder.
func prune(folder, label string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fault.New(fault.Execution, "remove old images", folder, err)
	}
	type old struct {
		name string
		used time.Time
	}
	var parts []old
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), label+"-")
		info, err := e.Info()
		if !ok || len(digits) != keyDigits || err != nil || !e.IsDir() {
			continue
		}
		parts = append(parts, old{e.Name(), info.ModTime()})
	}
	slices.SortFunc(parts, func(a, b old) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.name, b.name)) })
	for _, p := range parts[min(keep, len(parts)):] {
		if err := os.RemoveAll(filepath.Join(folder, p.name)); err != nil {
			return fault.New(fault.Execution, "remove old images", filepath.Join(folder, p.name), err)
		}
	}
	return nil
}

// use opens a part and notes that it is in use now, for prune.
func use(dir string) (part, bool) {
	p, err := openPart(dir)
	if err != nil {
		return part{}, false
	}
	now := time.Now()
	err = os.Chtimes(dir, now, now)
	return p, !errors.Is(err, fs.ErrNotExist) // it was not removed in between
}

// syncAll makes a folder and the files in it last.
func syncAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := config.Sync(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return config.Sync(dir)
}

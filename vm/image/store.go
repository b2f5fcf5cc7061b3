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

// A store has a folder for each kind of part with
//
//	LABEL-KEY/   the parts: their files and seal.json
//	building/    a part that is being built, or was when the program was killed
//	lock         locked while a part is built or removed
const (
	building = "building"
	lockName = "lock"
	// keyDigits is how many digits of a key a folder's name contains.
	keyDigits = 16
	// keep is how many parts of a label are kept: the current one and the one
	// before, for users who return to the previous version.
	keep = 2
)

// ensure returns the part with this key, and builds it if it does not exist. A new part
// is built and sealed in a temporary folder and then renamed, so that a killed program
// leaves no incomplete part.
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
	if p, ok := use(dir); ok { // another program has built it
		return p, nil
	}
	p, err := buildPart(ctx, folder, dir, build)
	if err != nil {
		return part{}, err
	}
	return p, prune(folder, label)
}

// place returns the folder of a part.
func (s Store) place(kind, label string, key pack.Digest) string {
	return filepath.Join(s.Dir, kind, label+"-"+key.String()[:keyDigits])
}

// buildPart builds a part. The caller holds the folder's lock.
func buildPart(ctx context.Context, folder, dir string, build func(ctx context.Context, dir string) error) (_ part, err error) {
	const op = "build image"
	temp := filepath.Join(folder, building)
	// Remove what a killed program left, and a part without a readable seal.
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

// DiscardBroken verifies an image and removes its broken parts, so that Ensure builds
// them again. It returns why they were broken. If it cannot tell whether a part is
// broken, it keeps the part and returns err. It keeps good parts too, since a baked base
// takes long to build and needs a network.
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

// discard removes a broken part, unless another program has rebuilt it meanwhile.
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

// broken reports whether an error of verify means that the part is broken: a file is
// missing, changed or unreadable. Other errors, such as too many open files, do not.
func broken(err error) bool {
	kind := fault.KindOf(err)
	return err != nil && (kind == fault.Rejected || kind == fault.NotFound || errors.Is(err, syscall.EIO))
}

// Clear removes all images. Running machines are not affected: they have the files open.
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

// prune removes all parts of a label except those used last. The caller holds the
// folder's lock.
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

// use opens a part and updates its time of use, for prune.
func use(dir string) (part, bool) {
	p, err := openPart(dir)
	if err != nil {
		return part{}, false
	}
	now := time.Now()
	err = os.Chtimes(dir, now, now)
	return p, !errors.Is(err, fs.ErrNotExist) // removed since openPart
}

// syncAll syncs a folder and its files to disk.
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

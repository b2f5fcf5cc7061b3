package snapshots

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

const (
	// frozenLimit is how long the guest's disk is frozen: far longer than sharing its blocks takes. The
	// guest thaws it by itself then. Copying a disk would take minutes, in which no program could
	// write, so that the guest is stopped for it instead.
	frozenLimit = 10 * time.Second
	// thawLimit bounds the wait for a guest to thaw its disk.
	thawLimit = 5 * time.Second
)

// freezer is a guest that can freeze its data disk.
type freezer interface {
	// Freeze writes everything to the data disk and makes writers wait, at most for some time.
	Freeze(ctx context.Context, within time.Duration) error
	// Thaw ends it. It fails if the time was over before.
	Thaw(ctx context.Context) error
}

// live copies the disk of a running guest by sharing its blocks. It reports false, and leaves nothing, if
// there is none, or it has to be stopped.
func (s *Snapshots) live(ctx context.Context, from, to string, report progress.Func) bool {
	l, ok := s.Machine.Peek()
	if !ok {
		return false
	}
	defer l.Release()
	guest, can := l.Guest.(freezer)
	if !can {
		return false
	}
	err := guest.Freeze(ctx, frozenLimit)
	if err == nil {
		err = withDisk(from, to, clone.Reflink)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawLimit)
		defer cancel()
		if thawed := guest.Thaw(late); err == nil && thawed != nil {
			err = errors.Join(thawed, os.Remove(to))
		}
	}
	if err != nil {
		report.Note("the guest is stopped while its disk is copied: " + err.Error())
	}
	return err == nil
}

// withDisk copies a disk.
func withDisk(from, to string, copied func(*os.File, *os.Root, string) (*os.File, error)) error {
	f, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "copy disk", from, err).Advise("Set the sandbox up: osaurus-sandbox up.")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	dir, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	made, err := copied(f, dir, filepath.Base(to))
	if err != nil {
		return err
	}
	return made.Close()
}

// copyAll copies all parts. Nobody writes to the disk.
func copyAll(ctx context.Context, from, to [3]string, report progress.Func) error {
	err := withDisk(from[0], to[0], func(f *os.File, dir *os.Root, name string) (*os.File, error) {
		if made, err := clone.Reflink(f, dir, name); err == nil {
			return made, nil
		}
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		size := clone.Allocated(info)
		if free, err := clone.Free(dir.Name()); err != nil || free-size < boot.MinFree {
			return nil, errors.Join(fault.Newf(fault.Unavailable, "copy disk", f.Name(), "it takes %d MB, and %d MB are free", size>>20, free>>20), err)
		}
		meter := report.Start("copy the disk", 0, size)
		defer meter.Finish()
		return clone.File(ctx, f, dir, name, meter.Add)
	})
	if err != nil {
		return err
	}
	return copyFolders(ctx, from, to, report)
}

func copyFolders(ctx context.Context, from, to [3]string, report progress.Func) error {
	meter := report.Start("copy files", 0, 0)
	defer meter.Finish()
	for i := 1; i < len(from); i++ {
		if err := copyFolder(ctx, from[i], to[i], meter.Add); err != nil {
			return err
		}
	}
	return nil
}

func copyFolder(ctx context.Context, from, to string, count func(int64)) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return clone.Tree(ctx, source, target, count)
}

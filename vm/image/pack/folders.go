package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

// Folders manages the folders in Dir, which several programs share. A folder is written
// under a temporary name and then renamed, so it is either complete or missing. One lock
// covers all folders. Names with a leading dot are reserved.
type Folders struct{ Dir string }

// Path returns the path of a folder.
func (f Folders) Path(name string) string { return filepath.Join(f.Dir, name) }

func (f Folders) temp(name string) string { return f.Path("." + name + ".new") }

func (f Folders) lock(ctx context.Context, report progress.Func) (unlock func(), err error) {
	return config.Lock(ctx, f.Path(".lock"), func() { report.Note("waiting for another program that is changing " + f.Dir) })
}

// Build creates a folder unless open succeeds: fill writes its files to an empty folder. A
// broken folder is kept until the new one is complete. If open fails with an error that is
// not Broken, Build returns that error.
func (f Folders) Build(ctx context.Context, name string, report progress.Func, open func() error, fill func(dir string) error) error {
	unlock, err := f.lock(ctx, report)
	if err != nil {
		return err
	}
	defer unlock()
	path, temp := f.Path(name), f.temp(name)
	wrong := open()
	if !Broken(wrong) {
		return wrong
	}
	if _, err := os.Lstat(path); err == nil {
		report.Note(wrong.Error() + "; making it again")
	}
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o755)); err != nil {
		return fault.New(fault.Execution, "make", path, err)
	}
	defer os.RemoveAll(temp)
	if err := fill(temp); err != nil {
		return err
	}
	if err := errors.Join(syncFolder(temp), os.RemoveAll(path), os.Rename(temp, path), config.Sync(f.Dir)); err != nil {
		return fault.New(fault.Execution, "make", path, err)
	}
	return nil
}

// Remove deletes the folders whose names match.
func (f Folders) Remove(ctx context.Context, match func(name string) bool) error {
	unlock, err := f.lock(ctx, nil)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return fault.New(fault.Execution, "list", f.Dir, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && match(e.Name()) {
			err = errors.Join(err, f.Discard(e.Name()))
		}
	}
	return err
}

// Discard deletes a folder. Call it only from fill, which holds the lock.
func (f Folders) Discard(name string) error {
	temp := f.temp(name) // a killed program leaves no part of the folder under its name
	if err := errors.Join(os.RemoveAll(temp), os.Rename(f.Path(name), temp), os.RemoveAll(temp)); err != nil {
		return fault.New(fault.Execution, "remove", f.Path(name), err)
	}
	return nil
}

// Broken reports whether an error of reading a folder means that a file is missing,
// changed or unreadable. Other errors, such as too many open files, say nothing about it.
func Broken(err error) bool {
	kind := fault.KindOf(err)
	return err != nil && (kind == fault.NotFound || kind == fault.Rejected || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO))
}

// syncFolder syncs a folder and its files to disk.
func syncFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, config.Sync(filepath.Join(dir, e.Name())))
	}
	return errors.Join(err, config.Sync(dir))
}

// Package nofollow opens files and folders, and deletes trees of any depth, below a folder without following links.
package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrReplaced means that another file, a link or nothing has taken the place of a file. It is an
// fs.ErrNotExist too.
var ErrReplaced error = replaced{}

type replaced struct{}

func (replaced) Error() string { return "it was replaced or removed" }
func (replaced) Unwrap() error { return fs.ErrNotExist }

// Folder opens the folder at a slash-separated path. It fails with ErrReplaced if a part of the path is
// missing or not a folder.
func Folder(root *os.Root, path string) (at *os.Root, err error) {
	at = root
	for name := range strings.SplitSeq(path, "/") {
		next, err := enter(at, name)
		if at != root {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func enter(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !seen.IsDir() {
		err = ErrReplaced
	}
	if err != nil {
		return nil, err
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := next.Stat("."); err != nil || !os.SameFile(seen, now) {
		return nil, errors.Join(ErrReplaced, err, next.Close())
	}
	return next, nil
}

// File opens a file that Lstat has seen for reading. It never opens another one, even if a link has
// taken its place.
func File(dir *os.Root, name string, seen fs.FileInfo) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait
	if err != nil {
		if now, gone := dir.Lstat(name); gone != nil || !os.SameFile(now, seen) {
			err = ErrReplaced
		}
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(now, seen) {
		return nil, errors.Join(ErrReplaced, err, f.Close())
	}
	return f, nil
}

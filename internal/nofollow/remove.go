package nofollow

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

const (
	// batch is the number of names that are read at once.
	batch = 1024
	// ours lets the owner list a folder and empty it.
	ours fs.FileMode = 0o700
)

// Remove deletes the named file or folder below parent and everything in it, also
// folders that their owner made unreadable. It follows no links, and ignores a missing
// file. It stops at the first file that cannot be deleted.
//
// Descending would take a descriptor for each level, and the tree may be of any
// depth. Instead, subfolders are moved to the top and emptied there.
func Remove(parent *os.Root, name string) error {
	if err := remove(parent, name); !full(err) {
		return err
	}
	_ = parent.Chmod(name, ours) // the next step fails if it matters
	top, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer top.Close()
	err = each(top, func(entry string) error {
		if err := remove(top, entry); !full(err) {
			return err
		}
		if err := hollow(top, entry); err != nil {
			return err
		}
		return remove(top, entry)
	})
	if err != nil {
		return err
	}
	return remove(parent, name)
}

// hollow empties a folder at the top. Subfolders that are not empty move up.
func hollow(top *os.Root, name string) error {
	_ = top.Chmod(name, ours)
	dir, err := top.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return each(dir, func(entry string) error {
		if err := remove(dir, entry); !full(err) {
			return err
		}
		_ = dir.Chmod(entry, ours) // a folder moves only if its own ".." may be written
		return top.Rename(path.Join(name, entry), rand.Text())
	})
}

// each calls f, which removes the entry, for each name in a folder. It starts over
// until none are left, since reading may miss names while others are removed.
func each(dir *os.Root, f func(entry string) error) error {
	for {
		names, err := some(dir)
		if len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := f(name); err != nil {
				return err
			}
		}
	}
}

func some(dir *os.Root) ([]string, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(batch)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func remove(dir *os.Root, name string) error {
	if err := dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// full reports whether a folder was not removed because it is not empty.
func full(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) }

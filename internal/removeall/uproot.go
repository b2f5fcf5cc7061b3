// Package uproot deletes folders of others, however deep they are, with a constant number of descriptors.
package removeall

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
	// batch is how many names are read at once: few enough to hold, whoever made them.
	batch = 1024
	// ours lets the owner look into a folder and empty it.
	ours fs.FileMode = 0o700
)

// Remove deletes what has a name below parent, with all that is in it, also what
// its owner has made unreadable. It leads through no link. Nothing there is no
// error; at the first thing that cannot be deleted it stops.
//
// Descending would hold a descriptor for each level, and a tree is as deep as who
// made it likes. So it never descends: the folders that a folder holds move up to the
// top, where each has its turn.
func Remove(parent *os.Root, name string) error {
	if err := remove(parent, name); !full(err) {
		return err
	}
	_ = parent.Chmod(name, ours) // if it matters, the next step says so
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

// hollow empties a folder of the top: what is a folder with something in it moves up.
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
		_ = dir.Chmod(entry, ours) // it moves only if its own ".." may be written
		return top.Rename(path.Join(name, entry), rand.Text())
	})
}

// each calls f, which takes it away, with each name in a folder. What is read while
// names go may lack some, so it begins again until there is none.
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

// full reports whether a folder was not removed for what is in it.
func full(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) }

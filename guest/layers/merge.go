//go:build linux

package layers

import (
	"errors"
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// batch is how many names of a folder are held in memory.
const batch = 1000

// Walk calls f for all names below a folder that may change meanwhile: each before those in it, which
// come if f says so.
func Walk(top *os.Root, f func(dir *os.File, path string) (enter bool, err error)) error {
	for todo := []string{"."}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := each(top, at, func(dir *os.File, name string) error {
			p := path.Join(at, name)
			enter, err := f(dir, p)
			if enter {
				todo = append(todo, p)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for the names in a folder, unless it is gone.
func each(top *os.Root, at string, f func(dir *os.File, name string) error) error {
	dir, err := top.OpenFile(at, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := f(dir, name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stat returns what is at a path, or nil.
func stat(path string) *syscall.Stat_t {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return nil
	}
	return &st
}

func isDir(st *syscall.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFDIR }

// opaque is the attribute of a folder that hides those below it.
const opaque = "trusted.overlay.opaque"

// Opaque reports whether a folder of a layer hides those below it.
func Opaque(path string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(path, opaque, b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

func close(path string) error { return unix.Lsetxattr(path, opaque, []byte("y"), 0) }

// merge merges two layers of a room that it no longer needs apart, and reports whether there were such.
// The room must not run.
func (s *Store) merge(user string, st *Stack) (bool, error) {
	shared, err := s.used(user)
	if err != nil {
		return false, err
	}
	list := st.mergeable(shared)
	if list == nil {
		return false, nil
	}
	n := len(list) - 2
	from, err := os.OpenRoot(s.Path(list[n]))
	if err != nil {
		return false, err
	}
	defer from.Close()
	to, err := os.OpenRoot(s.Path(list[n+1]))
	if err != nil {
		return false, err
	}
	defer to.Close()
	err = s.view(s.Paths(list[:n]...), "", "", func(below *os.Root) error { return s.fold(from, to, ".", below.Name()) })
	if err == nil {
		st.drop(list[n])
		err = s.Write(user, st)
	}
	return err == nil, errors.Join(err, s.Sweep())
}

// fold moves what is in a folder of a layer into that of the layer over it. Below is what those under
// both show, or "". After each step the layers show what they showed, so the rest can be done later.
func (s *Store) fold(from, to *os.Root, at, below string) error {
	was, err := to.Stat(at)
	if err != nil {
		return err
	}
	if Opaque(path.Join(from.Name(), at)) {
		below, err = "", close(path.Join(to.Name(), at))
	}
	err = errors.Join(err, each(from, at, func(_ *os.File, name string) (err error) {
		p := path.Join(at, name)
		old, new := path.Join(from.Name(), p), path.Join(to.Name(), p)
		a, b := stat(old), stat(new)
		switch {
		case b == nil:
			return os.Rename(old, new)
		case isDir(a) && isDir(b) && !Opaque(new):
			err = s.fold(from, to, p, below)
		case isDir(a):
			return s.Discard(old)
		case isDir(b):
			err = close(new)
		}
		if err == nil {
			err = os.Remove(old)
		}
		return err
	}))
	if err != nil {
		return err
	}
	// In a folder that only one layer has, the kernel would list names that are deleted.
	err = each(to, at, func(_ *os.File, name string) error {
		p := path.Join(at, name)
		st := stat(path.Join(to.Name(), p))
		if st == nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 || below != "" && stat(path.Join(below, p)) != nil {
			return nil
		}
		return to.Remove(p)
	})
	return errors.Join(err, to.Chtimes(at, time.Time{}, was.ModTime()))
}

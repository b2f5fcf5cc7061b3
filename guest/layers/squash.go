//go:build linux

package layers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// merge merges two layers of a room that it no longer needs apart, and reports whether there were such.
// Lock returns with the room's turn, in which nothing else changes its stack.
//
// The new layer is made of hard links, while the room may run with the old ones. Writing the stack switches
// to it; a new layer that is not switched to is discarded as any that no stack names.
func (s *Store) merge(user string, lock func() (unlock func(), err error)) (bool, error) {
	_, list, err := s.choose(user)
	if err != nil || list == nil {
		return false, err
	}
	n := len(list) - 2
	lower, is := list[n], newID(list[n].UID())
	below, pair := s.Paths(list[:n]...), s.Paths(list[n:]...)[:2]
	if err = os.Mkdir(s.Path(is), 0o700); err == nil {
		err = s.Own(s.Path(is), is.UID())
	}
	if err == nil {
		err = squash(pair, below, s.Path(is), false)
	}
	if err != nil {
		return false, fmt.Errorf("merge layers of %s: %w", user, err)
	}
	unlock, err := lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	st, again, err := s.choose(user)
	if err != nil || !slices.Equal(again, list) {
		return err == nil, err // the room has changed meanwhile
	}
	st.merged(lower, is)
	return true, s.Write(user, st)
}

// choose reads the stack of a room and finds what can be merged in it.
func (s *Store) choose(user string) (*Stack, []ID, error) {
	st, err := s.Read(user)
	if err != nil {
		return nil, nil, err
	}
	shared, err := s.users(user)
	if err != nil {
		return nil, nil, err
	}
	return st, st.mergeable(shared), nil
}

// squash fills a folder with what others, merged, have over those below. It leaves out whiteouts of
// what is not below: in a folder that only one layer has, the kernel lists them as files.
func squash(dirs, below []string, to string, closed bool) error {
	nodes, err := list(dirs)
	if err != nil {
		return err
	}
	under, err := list(below)
	if err != nil {
		return err
	}
	for name, n := range nodes {
		hidden, path := under[name].shown(), filepath.Join(to, name)
		switch {
		case n.isDir():
			var next []string
			if hidden != nil && !n.closed {
				next = hidden.dirs
			}
			if err = os.Mkdir(path, 0o700); err == nil {
				err = squash(n.dirs, next, path, n.closed)
			}
		case n.shown() != nil || hidden != nil:
			if err = plain(n.path); err == nil {
				err = os.Link(n.path, path) // not of what a symbolic link leads to
			}
		}
		if err != nil {
			return err
		}
	}
	return attributes(dirs[0], to, closed)
}

// plain fails for files whose content is elsewhere. The mount options of rooms make none.
func plain(path string) error {
	for _, name := range []string{"metacopy", "redirect"} {
		if _, err := unix.Lgetxattr(path, overlay+name, nil); err == nil {
			return fmt.Errorf("%s is incomplete: it has the attribute %s%s", path, overlay, name)
		}
	}
	return nil
}

// maxAttributes bounds the extended attributes of a file; ext4 keeps them in one block.
const maxAttributes = 64 << 10

// attributes gives a folder the attributes of another one.
func attributes(from, to string, closed bool) error {
	if err := plain(from); err != nil {
		return err
	}
	var st unix.Stat_t
	names, value := make([]byte, maxAttributes), make([]byte, maxAttributes)
	size, err := unix.Llistxattr(from, names)
	if err == unix.ENOTSUP {
		err = nil
	}
	for name := range bytes.SplitSeq(names[:max(size, 0)], []byte{0}) {
		if err != nil || len(name) == 0 || strings.HasPrefix(string(name), overlay) {
			continue
		}
		var n int
		if n, err = unix.Lgetxattr(from, string(name), value); err == nil {
			err = unix.Lsetxattr(to, string(name), value[:n], 0)
		}
	}
	if err == nil && closed {
		err = unix.Lsetxattr(to, opaque, []byte("y"), 0)
	}
	if err == nil {
		err = unix.Lstat(from, &st)
	}
	if err != nil {
		return &fs.PathError{Op: "copy attributes", Path: from, Err: err}
	}
	return errors.Join(os.Lchown(to, int(st.Uid), int(st.Gid)), unix.Chmod(to, st.Mode&0o7777),
		unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}

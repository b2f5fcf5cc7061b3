//go:build linux

package layers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Merge merges two layers of a room that it no longer needs apart, and reports whether there were
// such. Lock returns with the room's turn, in which nothing else changes its stack.
//
// The new layer is made aside, of hard links, while the room may run with the old ones. Writing the
// stack switches to it.
func (s *Store) Merge(user string, lock func() (unlock func(), err error)) (bool, error) {
	s.squashing.Lock()
	defer s.squashing.Unlock()
	is := newID()
	defer s.pin(is)()
	choose := func() (st *Stack, a, b ID, found bool, err error) {
		if st, err = s.Read(user); err != nil {
			return nil, "", "", false, ignoreMissing(err)
		}
		shared, err := s.users(user)
		if err != nil {
			return nil, "", "", false, err
		}
		a, b, found = st.mergeable(shared)
		return st, a, b, found, nil
	}
	unlock, err := lock()
	if err != nil {
		return false, err
	}
	st, lower, upper, found, err := choose()
	unlock()
	if err != nil || !found {
		return false, err
	}
	if err := s.squash(st.below(lower), lower, upper, is, st.Layers[upper].UID); err != nil {
		return false, errors.Join(fmt.Errorf("merge layers of %s: %w", user, err), ignoreMissing(s.Discard(s.Path(is))))
	}
	if unlock, err = lock(); err != nil {
		return false, err
	}
	defer unlock()
	st, a, b, found, err := choose()
	if err != nil || !found || a != lower || b != upper {
		return found, err // the room has changed meanwhile; a new choice is made
	}
	st.merged(lower, upper, is)
	return true, s.Write(user, st)
}

// squash makes a layer that shows the same, over the layers below, as two others.
func (s *Store) squash(below []ID, lower, upper, is ID, uid uint32) error {
	root := s.Path(is)
	dirs := s.Paths([]ID{lower, upper})
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	if err := s.Own(root, uid); err != nil {
		return err
	}
	err := squash(dirs, append(s.Paths(below), s.Base), root)
	if err == nil {
		err = attributes(dirs[0], root, false)
	}
	if err == nil {
		err = s.Sync()
	}
	return err
}

// squash fills a folder with what others, merged, have over those below. It leaves out whiteouts of
// what is not below: in a folder that only one layer has, the kernel lists them as files.
func squash(dirs, below []string, to string) error {
	nodes, err := list(dirs)
	if err != nil {
		return err
	}
	under, err := list(below)
	if err != nil {
		return err
	}
	for name, n := range nodes {
		hidden, path := under[name], filepath.Join(to, name)
		if hidden != nil && hidden.whiteout() {
			hidden = nil
		}
		switch {
		case n.isDir():
			var next []string
			if hidden != nil && !n.closed {
				next = hidden.dirs
			}
			err = os.Mkdir(path, 0o700)
			if err == nil {
				err = squash(n.dirs, next, path)
			}
			if err == nil {
				err = attributes(n.dirs[0], path, n.closed)
			}
		case n.whiteout() && hidden == nil:
		default:
			err = plain(n.path)
			if err == nil {
				err = os.Link(n.path, path) // not of what a symbolic link leads to
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Sync writes everything on the data disk to it.
func (s *Store) Sync() error {
	f, err := os.Open(s.Data)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

const (
	overlay = "trusted.overlay."
	// maxAttributes bounds the extended attributes of a file; ext4 keeps them in one block.
	maxAttributes = 64 << 10
)

// plain fails for files whose content is elsewhere. The mount options of rooms make none.
func plain(path string) error {
	for _, name := range []string{"metacopy", "redirect"} {
		if _, err := unix.Lgetxattr(path, overlay+name, nil); err == nil {
			return fmt.Errorf("%s is incomplete: it has the attribute %s%s", path, overlay, name)
		}
	}
	return nil
}

// attributes gives a folder the attributes of another one.
func attributes(from, to string, closed bool) error {
	if err := plain(from); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: from, Err: err}
	}
	names := make([]byte, maxAttributes)
	size, err := unix.Llistxattr(from, names)
	if err != nil && err != unix.ENOTSUP {
		return &fs.PathError{Op: "listxattr", Path: from, Err: err}
	}
	value := make([]byte, maxAttributes)
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names[:max(size, 0)], []byte{0}), []byte{0}) {
		if len(name) == 0 || strings.HasPrefix(string(name), overlay) {
			continue
		}
		n, err := unix.Lgetxattr(from, string(name), value)
		if err == nil {
			err = unix.Lsetxattr(to, string(name), value[:n], 0)
		}
		if err != nil {
			return &fs.PathError{Op: "copy attribute " + string(name), Path: from, Err: err}
		}
	}
	if closed {
		if err := unix.Lsetxattr(to, opaque, []byte("y"), 0); err != nil {
			return &fs.PathError{Op: "setxattr", Path: to, Err: err}
		}
	}
	at := []unix.Timespec{st.Atim, st.Mtim}
	return errors.Join(os.Lchown(to, int(st.Uid), int(st.Gid)), unix.Chmod(to, st.Mode&0o7777), unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Clean(to), at, unix.AT_SYMLINK_NOFOLLOW))
}

//go:build linux

package fs

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxName is the longest name of a Linux file.
const maxName = 255

// checkName refuses what is not the name of one file in a folder. Linux sends
// no such names; a hostile guest may.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return unix.ENAMETOOLONG
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"):
		return unix.EINVAL
	}
	return nil
}

// stale turns "not there" into "not there any more", upon which the guest's
// kernel looks the name up again.
func stale(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return unix.ESTALE
	}
	return err
}

// folder returns a descriptor of a folder, which is good for names in it and
// has been where its node says less than a second ago. The caller releases it.
func (s *session) folder(n *node) (*descriptor, error) {
	if n.kind != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	now := time.Now()
	s.mu.Lock()
	if n.depth > maxDepth {
		s.mu.Unlock()
		return nil, unix.ENAMETOOLONG
	}
	var missing []*node // n and the folders above it that must be checked
	for at := n; ; at = at.parent {
		if at.isRoot() || at.path != nil && (at.removed || now.Sub(at.checked) < fresh) {
			dir := at.path.acquire()
			if at.elem != nil {
				s.paths.MoveToFront(at.elem)
			}
			s.mu.Unlock()
			return s.descend(dir, missing, now)
		}
		if missing = append(missing, at); len(missing) > maxDepth {
			s.mu.Unlock()
			return nil, unix.ENAMETOOLONG
		}
	}
}

// descend goes from dir, which it releases, down to the first of missing.
func (s *session) descend(dir *descriptor, missing []*node, now time.Time) (*descriptor, error) {
	for i := len(missing) - 1; i >= 0; i-- {
		next, err := s.check(dir, missing[i], now)
		dir.release()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// check finds a folder at its place below dir and keeps its descriptor.
func (s *session) check(dir *descriptor, n *node, now time.Time) (*descriptor, error) {
	s.mu.Lock()
	name, parent, path := n.name, n.parent, n.path
	if path != nil {
		path.acquire()
	}
	s.mu.Unlock()

	var info fileInfo
	var err error
	if path != nil {
		err = statAt(dir, name, &info)
	} else if path, err = openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		err = path.stat(&info)
	}
	if err == nil && info.identity() != n.identity {
		err = unix.ESTALE
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if n.name == name && n.parent == parent {
			s.losePathLocked(n)
		}
		path.release()
		return nil, stale(err)
	}
	s.holdPathLocked(n, path)
	if n.name == name && n.parent == parent {
		n.checked = now
	}
	return path, nil
}

// place returns where a node is: the descriptor of a folder, to be released,
// and a name. The root is nowhere.
func (s *session) place(n *node) (*descriptor, string, error) {
	if n.isRoot() {
		return nil, "", unix.EBUSY
	}
	s.mu.Lock()
	parent, name := n.parent, n.name
	s.mu.Unlock()
	dir, err := s.folder(parent)
	return dir, name, err
}

// openNode opens a node's file at its place. The file is the node's, or the
// node is stale.
func (s *session) openNode(n *node, flags int, info *fileInfo) (*descriptor, error) {
	dir, name, err := s.place(n)
	if err != nil {
		return nil, err
	}
	defer dir.release()
	if flags&unix.O_PATH == 0 {
		// The host's user could put a pipe there: do not wait for its other end.
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	d, err := openAt(dir, name, flags, 0)
	if err != nil {
		return nil, stale(err)
	}
	if err = d.stat(info); err == nil && info.identity() != n.identity {
		err = unix.ESTALE
	}
	if err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

// openFile is openNode for a regular file, which may have lost its name since
// the guest looked it up.
func (s *session) openFile(n *node, flags int, info *fileInfo) (*descriptor, error) {
	d, err := s.openNode(n, flags, info)
	if err != unix.ESTALE {
		return d, err
	}
	held := s.held(n)
	if held == nil {
		return nil, err
	}
	defer held.release()
	fd, err := unix.Open(procPath(held), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	d = newDescriptor(fd)
	return d, d.stat(info)
}

// path returns a descriptor, to be released, that names the node's file for
// procPath and for AT_EMPTY_PATH.
func (s *session) path(n *node, info *fileInfo) (*descriptor, error) {
	if d := s.held(n); d != nil {
		return d, d.stat(info)
	}
	if n.kind == unix.S_IFDIR {
		d, err := s.folder(n)
		if err == nil {
			err = d.stat(info)
		}
		return d, err
	}
	return s.openNode(n, unix.O_PATH, info)
}

// held returns a descriptor of a node's file that needs no name: of one that
// the guest has open, or has removed. It may be nil.
func (s *session) held(n *node) *descriptor {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range n.open {
		return h.file.acquire()
	}
	if (n.removed || n.isRoot()) && n.path != nil {
		return n.path.acquire()
	}
	return nil
}

// removed notes that a file, of which d is a descriptor and before what that
// told, has lost the name by which it was known. Programs of the guest may be about to open it: Linux
// tries that again once if it fails, and a file that is replaced time and again
// would fail it twice. What is kept for them goes on counting in u.
func (s *session) removed(parent *node, name string, d *descriptor, before *fileInfo, u *usage) {
	var after fileInfo
	if d.stat(&after) != nil || after.Nlink >= before.Nlink {
		return // the host's user has put another file there just then
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byID[after.identity()]
	if n == nil || n.parent != parent || n.name != name {
		return
	}
	n.removed = true
	s.holdPathLocked(n, d)
	if t, err := u.track(d); t != nil && err == nil {
		if n.elem == nil || n.charged != nil {
			u.untrack(t)
			return
		}
		n.charged, n.tracked = u, t
		u.kept.Add(1)
	}
}

// stat reads the attributes of a node's file.
func (s *session) stat(n *node, info *fileInfo) error {
	if d := s.held(n); d != nil {
		defer d.release()
		return d.stat(info)
	}
	dir, name, err := s.place(n)
	if err != nil {
		return err
	}
	defer dir.release()
	if err := statAt(dir, name, info); err != nil {
		return stale(err)
	}
	if info.identity() != n.identity {
		return unix.ESTALE
	}
	return nil
}

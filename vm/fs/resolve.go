package fs

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxName is the longest name of a Linux file.
const maxName = 255

// checkName returns an error unless name is one path component. Linux only sends valid names.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return unix.ENAMETOOLONG
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"):
		return unix.EINVAL
	}
	return nil
}

// stale replaces errors for a missing file by ESTALE, so that the guest's kernel looks the name up
// again.
func stale(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return unix.ESTALE
	}
	return err
}

// folder returns a descriptor of a folder whose place was checked less than a second ago. The
// caller must release it.
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
	var missing []*node // n and its parents that must be checked
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

// descend checks missing, from the last to the first, starting in dir, which it releases.
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

// check opens a folder at its place in dir and keeps its descriptor.
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
	} else if path, err = openAt(dir, name, oFolder, 0); err == nil {
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

// place returns a node's place: the descriptor of a folder, which the caller must release, and a
// name. The root has no place.
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

// openNode opens a node's file at its place. It fails with ESTALE if another file is there.
func (s *session) openNode(n *node, flags int, info *fileInfo) (*descriptor, error) {
	dir, name, err := s.place(n)
	if err != nil {
		return nil, err
	}
	defer dir.release()
	if flags != oPath {
		// Do not wait if the host's user has put a pipe there.
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

// openFile is openNode for a regular file, even if it has lost its name since the guest's look-up.
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
	if d, err = held.reopen(flags | unix.O_NONBLOCK | unix.O_NOCTTY); err != nil {
		return nil, err
	}
	return d, d.stat(info)
}

// path returns a descriptor of a node's file for procPath and AT_EMPTY_PATH. The caller must
// release it.
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
	return s.openNode(n, oPath, info)
}

// held returns a descriptor of a node's file if there is one that needs no name: of an open or
// removed file, or the root. It may be nil.
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

// removed records that the file d, with the attributes before, has lost the name of its place. It
// keeps d, since programs of the guest may be about to open the file: Linux retries a stale open
// only once, so it could fail for a file that is replaced often. The file counts in u until then.
func (s *session) removed(parent *node, name string, d *descriptor, before *fileInfo, u *usage) {
	var after fileInfo
	if d.stat(&after) != nil || after.Nlink >= before.Nlink {
		return // the host's user has replaced the file meanwhile
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

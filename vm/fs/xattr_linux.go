package fs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// userPrefix begins the extended attributes that pass between guest and host. Others have a
	// meaning for the host's kernel (capabilities, access lists, labels).
	userPrefix = "user."
	// maxXAttr and maxXAttrList are Linux's limits of a value and of a list.
	maxXAttr, maxXAttrList = 64 << 10, 64 << 10
)

// attributed returns a node and a descriptor for system calls on its attributes. The caller must
// release the descriptor.
func (s *session) attributed(id uint64) (*node, *descriptor, error) {
	n, err := s.node(id)
	if err != nil {
		return nil, nil, err
	}
	if n.kind == unix.S_IFLNK {
		return nil, nil, unix.EPERM // as on Linux
	}
	var info fileInfo
	d, err := s.path(n, &info)
	return n, d, err
}

// changeXAttr runs f, which may add size bytes to a file's attributes, and updates the quota.
func (s *session) changeXAttr(id uint64, size int64, f func(path string) error) error {
	n, d, err := s.attributed(id)
	if err != nil {
		return err
	}
	defer d.release()
	u := s.zone(n).usage
	defer u.lockNames()()
	t, err := u.track(d)
	if err != nil {
		return err
	}
	defer u.untrack(t)
	if err := s.reserve(u, size); err != nil {
		return err
	}
	defer u.settle(t, d, size)
	return f(procPath(d))
}

func isUserXAttr(name string) bool {
	return strings.HasPrefix(name, userPrefix) && len(name) > len(userPrefix) && len(name) <= maxName
}

// GetXAttr implements fuse.RawFileSystem. It needs no system call for security.capability, which
// Linux reads at the first write to each file.
func (s *session) GetXAttr(_ <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if !isUserXAttr(name) {
		return 0, fuse.ENODATA
	}
	_, d, err := s.attributed(in.NodeId)
	if err != nil {
		return 0, status(err)
	}
	defer d.release()
	n, err := unix.Getxattr(procPath(d), name, dest)
	return uint32(max(n, 0)), status(err)
}

func (s *session) ListXAttr(_ <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	_, d, err := s.attributed(in.NodeId)
	if err == unix.EPERM {
		return 0, fuse.OK // a symbolic link has none
	}
	if err != nil {
		return 0, status(err)
	}
	defer d.release()
	all := make([]byte, maxXAttrList)
	n, err := unix.Listxattr(procPath(d), all)
	if err != nil {
		return 0, status(err)
	}
	var names []byte
	for name := range strings.SplitAfterSeq(string(all[:n]), "\x00") {
		if isUserXAttr(strings.TrimSuffix(name, "\x00")) {
			names = append(names, name...)
		}
	}
	if len(dest) > 0 && len(names) > len(dest) {
		return uint32(len(names)), fuse.ERANGE
	}
	copy(dest, names)
	return uint32(len(names)), fuse.OK
}

func (s *session) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	if !isUserXAttr(name) {
		return fuse.Status(unix.EOPNOTSUPP)
	}
	if in.Size > maxXAttr || int(in.Size) > len(value) || in.Flags&^(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return fuse.EINVAL
	}
	size := int64(len(name)) + int64(in.Size) // a name alone takes space, too
	return status(s.changeXAttr(in.NodeId, size, func(path string) error {
		return unix.Setxattr(path, name, value[:in.Size], int(in.Flags))
	}))
}

func (s *session) RemoveXAttr(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	if !isUserXAttr(name) {
		return fuse.ENODATA
	}
	return status(s.changeXAttr(in.NodeId, 0, func(path string) error { return unix.Removexattr(path, name) }))
}

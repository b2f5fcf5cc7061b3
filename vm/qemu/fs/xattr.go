//go:build linux

package fs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// userPrefix is of the only extended attributes that pass between guest and
	// host. The others mean something to the host's kernel (capabilities,
	// access lists, labels) and are neither shown nor stored.
	userPrefix = "user."
	// maxXAttr and maxXAttrList are Linux's limits of a value and of a list.
	maxXAttr, maxXAttrList = 64 << 10, 64 << 10
)

// attributed returns a path for the system calls on a file's attributes.
func (s *session) attributed(id uint64) (path string, done func(), err error) {
	n, err := s.node(id)
	if err != nil {
		return "", nil, err
	}
	if n.kind == unix.S_IFLNK {
		return "", nil, unix.EPERM // as Linux answers for user attributes
	}
	var info fileInfo
	d, err := s.path(n, &info)
	if err != nil {
		return "", nil, err
	}
	return procPath(d), d.release, nil
}

func isUserXAttr(name string) bool {
	return strings.HasPrefix(name, userPrefix) && len(name) > len(userPrefix) && len(name) <= maxName
}

// GetXAttr implements fuse.RawFileSystem. security.capability is asked for at
// the first write to each file, so the answer to it costs nothing.
func (s *session) GetXAttr(_ <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if !isUserXAttr(name) {
		return 0, fuse.ENODATA
	}
	path, done, err := s.attributed(in.NodeId)
	if err != nil {
		return 0, status(err)
	}
	defer done()
	n, err := unix.Getxattr(path, name, dest)
	return uint32(max(n, 0)), status(err)
}

// ListXAttr implements fuse.RawFileSystem.
func (s *session) ListXAttr(_ <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	path, done, err := s.attributed(in.NodeId)
	if err == unix.EPERM {
		return 0, fuse.OK // a link has none
	}
	if err != nil {
		return 0, status(err)
	}
	defer done()
	all := make([]byte, maxXAttrList)
	n, err := unix.Listxattr(path, all)
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

// SetXAttr implements fuse.RawFileSystem.
func (s *session) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	if !isUserXAttr(name) {
		return fuse.Status(unix.EOPNOTSUPP)
	}
	if in.Size > maxXAttr || int(in.Size) > len(value) || in.Flags&^(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return fuse.EINVAL
	}
	path, done, err := s.attributed(in.NodeId)
	if err != nil {
		return status(err)
	}
	defer done()
	return status(unix.Setxattr(path, name, value[:in.Size], int(in.Flags)))
}

// RemoveXAttr implements fuse.RawFileSystem.
func (s *session) RemoveXAttr(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	if !isUserXAttr(name) {
		return fuse.ENODATA
	}
	path, done, err := s.attributed(in.NodeId)
	if err != nil {
		return status(err)
	}
	defer done()
	return status(unix.Removexattr(path, name))
}

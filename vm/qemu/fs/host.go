//go:build linux

package fs

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor that is closed with its last reference.
type descriptor struct {
	fd   int
	refs atomic.Int32
}

func newDescriptor(fd int) *descriptor {
	d := &descriptor{fd: fd}
	d.refs.Store(1)
	return d
}

// acquire adds a reference; the caller knows that there is one.
func (d *descriptor) acquire() *descriptor {
	d.refs.Add(1)
	return d
}

func (d *descriptor) release() {
	if d != nil && d.refs.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// resolver opens names in folders.
type resolver struct {
	// openat2 is false where the host's kernel (before 5.6) or a filter around
	// this process has none. Names are single components, which O_NOFOLLOW
	// alone confines; openat2 says the same a second time.
	openat2 bool
	// failsLate is true where what was written goes elsewhere later: close tells
	// that this has failed.
	failsLate bool
}

// probe finds out what the host can do, on a folder of it.
func (r *resolver) probe(dir *descriptor) error {
	r.openat2 = true
	d, err := r.openAt(dir, ".", unix.O_PATH, 0)
	if r.openat2 = err == nil; !r.openat2 {
		if d, err = r.openAt(dir, ".", unix.O_PATH, 0); err != nil {
			return err
		}
	}
	defer d.release()
	var s unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &s); err != nil {
		return err
	}
	switch uint32(s.Type) { // of 64 bits, or of 32 with a sign
	case unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		r.failsLate = true
	}
	return unix.Access(procPath(d), unix.F_OK)
}

// openAt opens the file that name is in the folder dir, never what a link
// there points to.
func (r *resolver) openAt(dir *descriptor, name string, flags int, mode uint32) (*descriptor, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		var fd int
		var err error
		if r.openat2 {
			fd, err = unix.Openat2(dir.fd, name, &unix.OpenHow{
				Flags:   uint64(flags),
				Mode:    uint64(mode),
				Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
			})
		} else {
			fd, err = unix.Openat(dir.fd, name, flags, mode)
		}
		switch err {
		case nil:
			return newDescriptor(fd), nil
		case unix.EINTR:
		default:
			return nil, err
		}
	}
}

const (
	selfFD = "/proc/self/fd/"
	// statMask is all that FUSE shows, and the time of birth.
	statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
)

// procPath names the file of a descriptor for system calls that take no
// O_PATH descriptor.
func procPath(d *descriptor) string { return selfFD + strconv.Itoa(d.fd) }

// fileInfo is what the host tells of a file.
type fileInfo struct{ unix.Statx_t }

func (i *fileInfo) identity() identity {
	return identity{
		dev:  uint64(i.Dev_major)<<32 | uint64(i.Dev_minor),
		ino:  i.Ino,
		born: i.Btime.Sec*int64(time.Second) + int64(i.Btime.Nsec),
	}
}

func (i *fileInfo) kind() uint32 { return uint32(i.Mode) & unix.S_IFMT }

// bytes is the room that the file takes on disk.
func (i *fileInfo) bytes() int64 { return int64(i.Blocks) * blockSize }

// blockSize is what Linux counts a file's room in, whatever its file system does.
const blockSize = 512

// statAt is lstat of a name in a folder.
func statAt(dir *descriptor, name string, info *fileInfo) error {
	for {
		err := unix.Statx(dir.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, &info.Statx_t)
		if err != unix.EINTR {
			return err
		}
	}
}

// stat is fstat of a descriptor.
func (d *descriptor) stat(info *fileInfo) error {
	return unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, statMask, &info.Statx_t)
}

func identify(d *descriptor) (identity, error) {
	var info fileInfo
	err := d.stat(&info)
	return info.identity(), err
}

//go:build linux

package fs

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// descriptor is a reference-counted file descriptor.
type descriptor struct {
	fd   int
	refs atomic.Int32
}

func newDescriptor(fd int) *descriptor {
	d := &descriptor{fd: fd}
	d.refs.Store(1)
	return d
}

// acquire adds a reference. The caller must hold one already.
func (d *descriptor) acquire() *descriptor {
	d.refs.Add(1)
	return d
}

func (d *descriptor) release() {
	if d != nil && d.refs.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// openAt opens a file in dir without following links.
func openAt(dir *descriptor, name string, flags int, mode uint32) (d *descriptor, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	err = retry(func() error {
		fd, err := unix.Openat2(dir.fd, name, &how)
		if err == nil {
			d = newDescriptor(fd)
		}
		return err
	})
	return d, err
}

// probe fails if the host lacks a system call that shares need.
func probe(dir *descriptor) error {
	d, err := openAt(dir, ".", unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer d.release()
	return unix.Access(procPath(d), unix.F_OK)
}

const (
	selfFD = "/proc/self/fd/"
	// statMask selects all fields that FUSE needs, and the birth time.
	statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
)

// procPath returns a /proc path of a descriptor's file, for system calls that do not accept O_PATH
// descriptors.
func procPath(d *descriptor) string { return selfFD + strconv.Itoa(d.fd) }

// fileInfo is the host's statx result for a file.
type fileInfo struct{ unix.Statx_t }

func (i *fileInfo) identity() identity {
	return identity{
		dev:  uint64(i.Dev_major)<<32 | uint64(i.Dev_minor),
		ino:  i.Ino,
		born: i.Btime.Sec*int64(time.Second) + int64(i.Btime.Nsec),
	}
}

func (i *fileInfo) kind() uint32 { return uint32(i.Mode) & unix.S_IFMT }

// bytes returns the space that the file uses on disk.
func (i *fileInfo) bytes() int64 { return int64(i.Blocks) * blockSize }

// blockSize is the unit of Blocks on every file system.
const blockSize = 512

// statAt is lstat for a name in a folder.
func statAt(dir *descriptor, name string, info *fileInfo) error {
	return retry(func() error {
		return unix.Statx(dir.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, &info.Statx_t)
	})
}

// stat is fstat for a descriptor.
func (d *descriptor) stat(info *fileInfo) error {
	return unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, statMask, &info.Statx_t)
}

func identify(d *descriptor) (identity, error) {
	var info fileInfo
	err := d.stat(&info)
	return info.identity(), err
}

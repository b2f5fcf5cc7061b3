package fs

import (
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// oPath opens a file of any kind, or a link itself, to look at it and change its attributes.
	oPath = unix.O_PATH
	// oFolder opens a folder to resolve names in it.
	oFolder = unix.O_PATH | unix.O_DIRECTORY
)

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

// statAt is lstat for a name in a folder.
func statAt(dir *descriptor, name string, info *fileInfo) error {
	return retry(func() error { return info.statx(dir.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) })
}

// stat is fstat for a descriptor.
func (d *descriptor) stat(info *fileInfo) error { return info.statx(d.fd, "", unix.AT_EMPTY_PATH) }

func (i *fileInfo) statx(fd int, name string, flags int) error {
	var st unix.Statx_t
	if err := unix.Statx(fd, name, flags, statMask, &st); err != nil {
		return err
	}
	at := func(t unix.StatxTimestamp) fileTime { return fileTime{t.Sec, t.Nsec} }
	*i = fileInfo{
		uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), st.Ino, st.Size, st.Blocks, uint32(st.Mode), st.Nlink, st.Blksize,
		at(st.Atime), at(st.Mtime), at(st.Ctime), at(st.Btime),
	}
	return nil
}

// chmod changes the mode of the file of any descriptor.
func (d *descriptor) chmod(mode uint32) error { return unix.Chmod(procPath(d), mode) }

// reopen opens the file of a descriptor, even if it has no name.
func (d *descriptor) reopen(flags int) (*descriptor, error) {
	fd, err := unix.Open(procPath(d), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return newDescriptor(fd), nil
}

// root opens a folder to walk through what is in it.
func (d *descriptor) root() (*os.Root, error) { return os.OpenRoot(procPath(d)) }

// utimes sets the times of the file of any descriptor. A nil time stays.
func (d *descriptor) utimes(access, modified *fileTime) error {
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	for i, t := range []*fileTime{access, modified} {
		if t != nil {
			ts[i] = unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
		}
	}
	return unix.UtimesNanoAt(d.fd, "", ts[:], unix.AT_EMPTY_PATH)
}

// renameAt renames a file. The flags are Linux's, which FUSE has.
func renameAt(from *descriptor, old string, to *descriptor, name string, flags uint32) error {
	return unix.Renameat2(from.fd, old, to.fd, name, uint(flags))
}

func (d *descriptor) syncData() error { return unix.Fdatasync(d.fd) }

// space returns the space of the file system of a descriptor.
func (d *descriptor) space() (diskSpace, error) {
	var s unix.Statfs_t
	err := unix.Fstatfs(d.fd, &s)
	return diskSpace{uint64(max(s.Frsize, 1)), s.Blocks, s.Bavail, s.Files, s.Ffree}, err
}

// maxVectors is Linux's limit for one system call (UIO_MAXIOV).
const maxVectors = 1024

// pwritev writes at an offset, or at the end of the file.
func (d *descriptor) pwritev(v [][]byte, off int64, atEnd bool) (int, error) {
	flags := 0
	if atEnd {
		flags = unix.RWF_APPEND
	}
	return unix.Pwritev2(d.fd, v, off, flags)
}

// linuxErrno returns the number that Linux has for an error.
func linuxErrno(e unix.Errno) unix.Errno { return e }

// listingSize is the read buffer of an open folder.
const listingSize = 8 << 10

// listing holds entries that were read from a folder but not yet returned. Offsets are the host's,
// which stay valid while the folder changes. Guarded by its handle's mu.
type listing struct {
	buf  []byte // whole buffer
	rest []byte // entries in it
	size int    // of the first
	off  int64  // the host's position of rest, which is also the guest's
}

func (l *listing) seek(dir *descriptor, off int64) error {
	l.rest = nil
	_, err := unix.Seek(dir.fd, off, unix.SEEK_SET)
	return err
}

// next returns the next entry, which stays until take.
func (l *listing) next(dir *descriptor) (e fuse.DirEntry, ok bool, err error) {
	if len(l.rest) == 0 {
		if l.buf == nil {
			l.buf = make([]byte, listingSize)
		}
		n := 0
		if err := retry(func() (err error) { n, err = unix.ReadDirent(dir.fd, l.buf); return err }); err != nil || n <= 0 {
			l.buf = nil
			return e, false, err
		}
		l.rest = l.buf[:n]
	}
	l.size = e.Parse(l.rest)
	return e, true, nil
}

func (l *listing) take(e *fuse.DirEntry) { l.rest, l.off = l.rest[l.size:], int64(e.Off) }

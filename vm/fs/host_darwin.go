package fs

import (
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// oPath opens a file of any kind, or a link itself, to look at it and change its attributes.
	oPath = unix.O_EVTONLY | unix.O_SYMLINK
	// oFolder opens a folder to resolve names in it.
	oFolder = unix.O_RDONLY | unix.O_DIRECTORY
)

// openAt opens a file in dir without following links. Name is one component.
func openAt(dir *descriptor, name string, flags int, mode uint32) (d *descriptor, err error) {
	if flags&unix.O_SYMLINK == 0 {
		flags |= unix.O_NOFOLLOW_ANY
	}
	err = retry(func() error {
		fd, err := unix.Openat(dir.fd, name, flags|unix.O_CLOEXEC, mode)
		if err == nil {
			d = newDescriptor(fd)
		}
		return err
	})
	return d, err
}

// probe fails if the host lacks a system call that shares need.
func probe(*descriptor) error { return nil }

// statAt is lstat for a name in a folder.
func statAt(dir *descriptor, name string, info *fileInfo) error {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dir.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	info.set(&st)
	return err
}

// stat is fstat for a descriptor.
func (d *descriptor) stat(info *fileInfo) error {
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	info.set(&st)
	return err
}

func (i *fileInfo) set(st *unix.Stat_t) {
	at := func(t unix.Timespec) fileTime { return fileTime{t.Sec, uint32(t.Nsec)} }
	*i = fileInfo{
		uint64(uint32(st.Dev)), st.Ino, uint64(st.Size), uint64(st.Blocks), uint32(st.Mode), uint32(st.Nlink), uint32(st.Blksize),
		at(st.Atim), at(st.Mtim), at(st.Ctim), at(st.Btim),
	}
}

// chmod changes the mode of the file of any descriptor.
func (d *descriptor) chmod(mode uint32) error { return unix.Fchmod(d.fd, mode) }

// reopen would open a file without a name, which macOS cannot.
func (d *descriptor) reopen(int) (*descriptor, error) { return nil, unix.ESTALE }

// root would open a folder to count it. Mounts have no quota.
func (d *descriptor) root() (*os.Root, error) { return nil, unix.ENOTSUP }

// utimes sets the times of the file of any descriptor, to microseconds. A nil time stays.
func (d *descriptor) utimes(access, modified *fileTime) error {
	var info fileInfo
	if err := d.stat(&info); err != nil {
		return err
	}
	tv := [2]unix.Timeval{}
	for i, t := range []*fileTime{access, modified} {
		if t == nil {
			t = []*fileTime{&info.Atime, &info.Mtime}[i]
		}
		tv[i] = unix.NsecToTimeval(t.nanos())
	}
	return unix.Futimes(d.fd, tv[:])
}

// renameAt renames a file. The flags are Linux's, which FUSE has.
func renameAt(from *descriptor, old string, to *descriptor, name string, flags uint32) error {
	var own uint32
	if flags&renameNoReplace != 0 {
		own |= unix.RENAME_EXCL
	}
	if flags&renameExchange != 0 {
		own |= unix.RENAME_SWAP
	}
	return unix.RenameatxNp(from.fd, old, to.fd, name, own)
}

func (d *descriptor) syncData() error { return unix.Fsync(d.fd) }

// space returns the space of the file system of a descriptor.
func (d *descriptor) space() (diskSpace, error) {
	var s unix.Statfs_t
	err := unix.Fstatfs(d.fd, &s)
	return diskSpace{uint64(max(s.Bsize, 1)), s.Blocks, s.Bavail, s.Files, s.Ffree}, err
}

// maxVectors is how many buffers pwritev and preadv take.
const maxVectors = 1

// pwritev writes at an offset, or at the end of the file, which another program may move meanwhile.
func (d *descriptor) pwritev(v [][]byte, off int64, atEnd bool) (int, error) {
	if atEnd {
		var info fileInfo
		if err := d.stat(&info); err != nil {
			return 0, err
		}
		off = int64(info.Size)
	}
	return unix.Pwrite(d.fd, v[0], off)
}

func (d *descriptor) preadv(v [][]byte, off int64) (int, error) { return unix.Pread(d.fd, v[0], off) }

// HandleCached serves no READ: macOS does not say what is in its page cache.
func (d *Server) HandleCached(Request) (n int, ok bool) { return 0, false }

// overwrites reports whether a write only replaces existing data. macOS has no quota that a mount
// needs it for.
func overwrites(*descriptor, int64, int64, error) bool { return false }

// linuxErrno returns the number that Linux has for an error.
func linuxErrno(e unix.Errno) unix.Errno {
	const same = unix.ERANGE // up to there, but for EDEADLK, both systems have the numbers of Unix
	if e <= same && e != unix.EDEADLK {
		return e
	}
	linux := map[unix.Errno]unix.Errno{
		unix.EDEADLK: 35, unix.EAGAIN: 11, unix.ENAMETOOLONG: 36, unix.ENOSYS: 38, unix.ENOTEMPTY: 39, unix.ELOOP: 40, unix.ENODATA: 61, unix.ENOATTR: 61,
		unix.EPROTO: 71, unix.EOVERFLOW: 75, unix.EILSEQ: 84, unix.ENOTSUP: 95, unix.EOPNOTSUPP: 95, unix.ESTALE: 116, unix.EDQUOT: 122,
	}
	if n, ok := linux[e]; ok {
		return n
	}
	return unix.EIO
}

// listing holds the entries of a folder as they were when it was read from its beginning: macOS gives
// no offsets that stay valid. Guarded by its handle's mu.
type listing struct {
	entries []os.DirEntry
	off     int64 // of the next entry
}

// unknownIno is what FUSE takes for an unknown number.
const unknownIno = 1<<32 - 1

func (l *listing) seek(dir *descriptor, off int64) error {
	if off != 0 {
		if off < 0 || off > int64(len(l.entries)) {
			return unix.EINVAL
		}
		return nil
	}
	fd, err := unix.Openat(dir.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	l.entries, err = f.ReadDir(-1)
	if len(l.entries) > 0 { // some were removed meanwhile
		err = nil
	}
	return err
}

// next returns the next entry, which stays until take.
func (l *listing) next(*descriptor) (e fuse.DirEntry, ok bool, err error) {
	if l.off >= int64(len(l.entries)) {
		return e, false, nil
	}
	entry := l.entries[l.off]
	kinds := map[os.FileMode]uint32{0: unix.S_IFREG, os.ModeDir: unix.S_IFDIR, os.ModeSymlink: unix.S_IFLNK}
	kind, ok := kinds[entry.Type()]
	if !ok {
		kind = unix.S_IFIFO // not shown
	}
	return fuse.DirEntry{Name: entry.Name(), Mode: kind, Ino: unknownIno, Off: uint64(l.off) + 1}, true, nil
}

func (l *listing) take(e *fuse.DirEntry) { l.off = int64(e.Off) }

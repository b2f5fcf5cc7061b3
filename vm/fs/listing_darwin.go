package fs

import (
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

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

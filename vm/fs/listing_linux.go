package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

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

package fs

import (
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

// fileInfo is what this computer says of a file.
type fileInfo struct {
	dev, Ino, Size, Blocks     uint64
	Mode, Nlink, Blksize       uint32
	Atime, Mtime, Ctime, Btime fileTime // Btime is zero if the file system has none
}

type fileTime struct {
	Sec  int64
	Nsec uint32
}

func (t fileTime) nanos() int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

func (i *fileInfo) identity() identity { return identity{i.dev, i.Ino, i.Btime.nanos()} }

func (i *fileInfo) kind() uint32 { return i.Mode & unix.S_IFMT }

// bytes returns the space that the file uses on disk.
func (i *fileInfo) bytes() int64 { return int64(i.Blocks) * blockSize }

// blockSize is the unit of Blocks on every file system.
const blockSize = 512

func identify(d *descriptor) (identity, error) {
	var info fileInfo
	err := d.stat(&info)
	return info.identity(), err
}

// diskSpace is the space of a file system, in blocks. Files is 0 if there is no fixed number.
type diskSpace struct {
	size, blocks, available, files, freeFiles uint64
}

// availableBytes returns the free bytes for unprivileged users.
func (s *diskSpace) availableBytes() int64 { return int64(s.available * s.size) }

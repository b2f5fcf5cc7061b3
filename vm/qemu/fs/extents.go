//go:build linux

package fs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// needsNoRoom reports whether size bytes at off can be written to a file though
// there is no room, as err says: what is there already is written over, and what
// was reserved is filled.
func needsNoRoom(file *descriptor, off, size int64, err error) bool {
	var s unix.Statfs_t
	switch {
	case size == 0:
		return true
	case err == unix.EDQUOT: // what is there counts already
		return allocated(file, off, size) || written(file, off, size)
	case unix.Fstatfs(file.fd, &s) != nil:
		return false
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
		return allocated(file, off, size)
	case unix.TMPFS_MAGIC:
		return written(file, off, size)
	}
	return false // others may write elsewhere, and keep what was there before
}

// written reports whether there are size bytes at off in a file.
func written(file *descriptor, off, size int64) bool {
	hole, err := unix.Seek(file.fd, off, unix.SEEK_HOLE)
	return err == nil && hole >= off+size
}

const (
	// fsIocFiemap is FS_IOC_FIEMAP of Linux.
	fsIocFiemap = 0xc020660b
	// extentEncoded and extentShared are the flags of extents (FIEMAP_EXTENT_*)
	// that cannot be written over where they are.
	extentEncoded, extentShared = 0x8, 0x2000
	// extentsAtOnce is how many of them are asked for at a time: the largest
	// WRITE rarely meets more.
	extentsAtOnce = 64
)

// extentMap is struct fiemap of Linux, with its extents.
type extentMap struct {
	start, length               uint64
	flags, mapped, count, spare uint32
	extents                     [extentsAtOnce]struct {
		logical, physical, length uint64
		_                         [2]uint64
		flags                     uint32
		_                         [3]uint32
	}
}

// allocated reports whether a file has blocks of its own for size bytes at off,
// also those that were only reserved. Where the file system does not tell, it has none.
func allocated(file *descriptor, off, size int64) bool {
	for at, end := uint64(off), uint64(off+size); at < end; {
		m := extentMap{start: at, length: end - at, count: extentsAtOnce}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(file.fd), fsIocFiemap, uintptr(unsafe.Pointer(&m))); errno != 0 || m.mapped == 0 {
			return false
		}
		for _, e := range m.extents[:min(m.mapped, extentsAtOnce)] {
			next := e.logical + e.length
			if e.logical > at || next <= at || e.flags&(extentEncoded|extentShared) != 0 {
				return false
			}
			at = next
		}
	}
	return true
}

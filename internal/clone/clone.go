// Package clone copies files and folders on this computer: it shares blocks where the file system can, and keeps holes.
package clone

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// piece is the number of bytes between two checks of the context: some milliseconds on a slow disk.
const piece = 4 << 20

// Extent is a part of a file that has data. The parts between extents are holes: they read as zeros
// and take no space.
type Extent struct{ Offset, Length int64 }

// Reflink makes a file that shares all blocks with an open one. It takes a moment, whatever the
// size. It fails with errors.ErrUnsupported if the file system cannot, or the two are on different
// ones. The new file must not exist; nothing is left of it after an error.
func Reflink(from *os.File, to *os.Root, name string) error {
	err := reflink(from, to, name)
	for _, cannot := range []error{unix.ENOTSUP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, cannot) {
			return errors.Join(errors.ErrUnsupported, err)
		}
	}
	return err
}

// Extents lists the data of a file up to a size. On a file system that does not know, it is all
// data.
func Extents(f *os.File, size int64) (list []Extent, err error) {
	for at := int64(0); at < size; {
		begin, end, err := NextData(f, at, size)
		if err != nil || begin == end {
			return list, err
		}
		list, at = append(list, Extent{begin, end - begin}), end
	}
	return list, nil
}

// Count is called with the number of bytes that were copied since its last call. It may be nil.
type Count func(n int64)

// File copies an open file to a new one with mode 0600: with Reflink, else its data without its
// holes.
func File(ctx context.Context, from *os.File, to *os.Root, name string, count Count) (err error) {
	if err := Reflink(from, to, name); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, to.Remove(name))
		}
	}()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := Range(ctx, f, 0, from, 0, info.Size(), count); err != nil {
		return err
	}
	return f.Truncate(info.Size())
}

// Free returns the free bytes of the disk that a folder is on, for a user without privileges.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(uint64(st.Bavail)*uint64(st.Bsize), math.MaxInt64)), nil
}

// Allocated returns how many bytes a file takes on the disk.
func Allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

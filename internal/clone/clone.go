// Package clone copies files and folders on this computer: it shares blocks where the file system can, and keeps holes.
package clone

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// piece is the number of bytes between two checks of the context: some milliseconds on a slow disk.
const piece = 4 << 20

// File is like Reflink, but copies the data, not the holes, if it cannot share blocks. Count is called with the bytes
// that were copied since its last call; it may be nil.
func File(ctx context.Context, from *os.File, to *os.Root, name string, count func(int64)) (*os.File, error) {
	if sharesWhole {
		if f, err := Reflink(from, to, name); err == nil {
			return f, nil
		}
	}
	f, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := from.Stat()
	if err == nil {
		err = Range(ctx, f, 0, from, 0, info.Size(), count)
	}
	if err == nil {
		err = f.Truncate(info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), to.Remove(name))
	}
	return f, nil
}

// Range copies n bytes of src from off to dst at a position that is dst's end. It shares blocks
// where the file system can; otherwise, it copies what is not a hole. It copies less if src ends before.
func Range(ctx context.Context, dst *os.File, at int64, src *os.File, off, n int64, count func(int64)) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	n = min(n, info.Size()-off)
	if n <= 0 || share(dst, at, src, off, n, info.Size()) == nil {
		return nil
	}
	for done := int64(0); done < n; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		data, hole, err := NextData(src, off+done, off+n)
		if err != nil {
			return err
		}
		if data == hole {
			break
		}
		hole = min(hole, data+piece)
		copied, err := io.Copy(io.NewOffsetWriter(dst, at+data-off), io.NewSectionReader(src, data, hole-data))
		if count != nil {
			count(copied)
		}
		if err != nil || copied < hole-data { // src was cut meanwhile
			return err
		}
		done = hole - off
	}
	return dst.Truncate(at + n)
}

// NextData returns where the next data of a file begins and ends, at or after off and before end.
// Both are end if the rest is a hole. A file system without holes has data everywhere.
func NextData(f *os.File, off, end int64) (data, hole int64, err error) {
	data, err = f.Seek(off, seekData)
	switch {
	case errors.Is(err, unix.ENXIO):
		return end, end, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOTTY):
		return off, end, nil
	case err != nil || data >= end:
		return end, end, err
	}
	hole, err = f.Seek(data, seekHole)
	return data, min(hole, end), err
}

// Free returns the free bytes of the disk that a folder is on, for a user without privileges.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return int64(st.Bavail) * int64(st.Bsize), err
}

// Allocated returns how many bytes a file takes on the disk.
func Allocated(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }

package clone

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Range copies n bytes of src from off to dst at a position that is dst's end. It shares blocks
// where the file system can; otherwise, it copies what is not a hole. It copies less if src ends before.
func Range(ctx context.Context, dst *os.File, at int64, src *os.File, off, n int64, count Count) error {
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
		if _, err := src.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := dst.Seek(at+data-off, io.SeekStart); err != nil {
			return err
		}
		copied, err := io.CopyN(dst, src, hole-data)
		if count != nil {
			count(copied)
		}
		if err == io.EOF { // src was cut meanwhile
			return nil
		}
		if err != nil {
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

package clone

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const seekData, seekHole = unix.SEEK_DATA, unix.SEEK_HOLE

// sharesWhole reports that only whole files share blocks.
const sharesWhole = false

// Reflink makes a file with mode 0600 that shares all blocks with an open one, and returns it open. It takes
// a moment, whatever the size. It fails if the file system cannot, or the two are on different ones. The new file
// must not exist; nothing is left of it after an error.
func Reflink(from *os.File, to *os.Root, name string) (*os.File, error) {
	f, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlFileClone(int(f.Fd()), int(from.Fd())); err != nil {
		return nil, errors.Join(err, f.Close(), to.Remove(name))
	}
	return f, nil
}

// share makes dst share blocks of src, which has this size. It fails unless at and off are at the
// beginning of a block, and off+n as well or at the end.
func share(dst *os.File, at int64, src *os.File, off, n, size int64) error {
	if n == size-off {
		n = 0 // up to the end
	}
	return unix.IoctlFileCloneRange(int(dst.Fd()), &unix.FileCloneRange{
		Src_fd: int64(src.Fd()), Src_offset: uint64(off), Src_length: uint64(n), Dest_offset: uint64(at),
	})
}

// Sync writes everything of the file system of a folder to its disk.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

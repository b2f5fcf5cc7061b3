package clone

import (
	"os"

	"golang.org/x/sys/unix"
)

// The whences of macOS's sys/unistd.h.
const seekData, seekHole = 4, 3

func reflink(from *os.File, to *os.Root, name string) error {
	dir, err := to.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Fclonefileat(int(from.Fd()), int(dir.Fd()), name, 0); err != nil {
		return &os.PathError{Op: "clonefile", Path: name, Err: err}
	}
	return to.Chmod(name, 0o600)
}

// share fails: APFS shares whole files alone.
func share(dst *os.File, at int64, src *os.File, off, n, size int64) error { return unix.ENOTSUP }

// Sync writes everything of the file system of a folder to its disk. On macOS that is everything.
func Sync(string) error { return unix.Sync() }

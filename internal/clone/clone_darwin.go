package clone

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The whences of macOS's sys/unistd.h.
const seekData, seekHole = 4, 3

// sharesWhole reports that only whole files share blocks.
const sharesWhole = true

// Reflink makes a file with mode 0600 that shares all blocks with an open one, and returns it open. It takes
// a moment, whatever the size. It fails if the file system cannot, or the two are on different ones. The new file
// must not exist; nothing is left of it after an error.
func Reflink(from *os.File, to *os.Root, name string) (*os.File, error) {
	dir, err := to.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := unix.Fclonefileat(int(from.Fd()), int(dir.Fd()), name, 0); err != nil {
		return nil, &os.PathError{Op: "clonefile", Path: name, Err: err}
	}
	if err := to.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, to.Remove(name))
	}
	return to.OpenFile(name, os.O_RDWR, 0)
}

func share(*os.File, int64, *os.File, int64, int64, int64) error { return unix.ENOTSUP }

// Sync writes everything of the file system of a folder to its disk. On macOS that is everything.
func Sync(string) error { return unix.Sync() }

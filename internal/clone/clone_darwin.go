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

func reflink(from *os.File, to *os.Root, name string) (*os.File, error) {
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

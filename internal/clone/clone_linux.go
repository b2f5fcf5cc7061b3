package clone

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const seekData, seekHole = unix.SEEK_DATA, unix.SEEK_HOLE

func reflink(from *os.File, to *os.Root, name string) error {
	f, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(unix.IoctlFileClone(int(f.Fd()), int(from.Fd())), f.Close())
	if err != nil {
		return errors.Join(err, to.Remove(name))
	}
	return nil
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

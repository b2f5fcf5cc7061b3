// Package disk makes and grows the data disk of a guest: a sparse file with a journaled ext4 file system that has project quotas.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// MinSize is the size of the template's file system. The guest grows it to
	// the disk's, online, when it mounts it.
	MinSize = 1 << 30
	// MaxSize is as far as the template's file system can be grown online:
	// the blocks that mke2fs reserves for group descriptors reach for 1024
	// times its size.
	MaxSize = 1 << 40

	adviseRoom = "Check that the folder is writable and that its disk has space."
)

// Create makes a new, empty disk. It takes hardly any room until the guest
// writes to it. It fails with fault.Rejected where there is a file already. A
// Create that is killed leaves at most a file of the same name with ".new"
// after it, which the next one replaces; so whoever calls must be the only one.
func Create(path string, size int64) error {
	const op = "create data disk"
	if err := check(size); err != nil {
		return fault.New(fault.InvalidArgs, op, path, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Rejected, op, path, errors.Join(errors.New("something is there already"), err)).
			Advise("A disk is never overwritten: remove it first if nothing on it is needed.")
	}
	if err := create(path, size); err != nil {
		return fault.New(fault.Unavailable, op, path, err).Advise(adviseRoom)
	}
	return nil
}

func create(path string, size int64) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(size), expand(f), f.Sync()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return config.Sync(filepath.Dir(path))
}

// Grow makes a disk larger; the guest grows its file system when it mounts it
// next. It fails with fault.Rejected where the disk is larger already: a file
// system that has been mounted cannot be made smaller.
func Grow(path string, size int64) error {
	const op = "grow data disk"
	if err := check(size); err != nil {
		return fault.New(fault.InvalidArgs, op, path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(op, path, err)
	}
	if size < info.Size() {
		return fault.Newf(fault.Rejected, op, path, "it has %d bytes and cannot be made smaller (%d)", info.Size(), size).
			Advise("Keep its size in the settings, or reset the sandbox to begin with a smaller disk.")
	}
	if err := os.Truncate(path, size); err != nil {
		return fault.New(fault.Unavailable, op, path, err).Advise(adviseRoom)
	}
	return nil
}

func check(size int64) error {
	switch {
	case size < MinSize || size > MaxSize:
		return fmt.Errorf("a size of %d bytes is not between %d and %d", size, int64(MinSize), int64(MaxSize))
	case size%blockSize != 0:
		return fmt.Errorf("a size of %d bytes is no multiple of %d", size, blockSize)
	}
	return nil
}

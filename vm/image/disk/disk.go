// Package disk creates and grows a guest's data disk: a sparse file with a journaled ext4 file system and project quotas.
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
	// MinSize is the size of the template's file system. The guest grows it to the
	// size of the disk when it mounts it.
	MinSize = 1 << 30
	// MaxSize is the limit for growing the template's file system: mke2fs reserves
	// group descriptors for 1024 times its size.
	MaxSize = 1 << 40

	adviseRoom = "Check that the folder is writable and that its disk has space."
)

// Create makes an empty disk, as a sparse file. It fails with fault.Rejected if the file
// exists. It writes to path with ".new" appended first, so it must not run twice at once
// for a path.
func Create(path string, size int64) error {
	const op = "create data disk"
	if err := check(size); err != nil {
		return fault.New(fault.InvalidArgs, op, path, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Rejected, op, path, errors.Join(errors.New("the file already exists"), err)).
			Advise("Remove the disk first if you do not need its content.")
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
	excludeFromBackups(temp)
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return config.Sync(filepath.Dir(path))
}

// Grow makes a disk larger. The guest grows the file system at the next mount. Grow
// fails with fault.Rejected if the disk is larger: disks cannot shrink.
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
		return fault.Newf(fault.Rejected, op, path, "it has %d bytes and cannot shrink to %d", info.Size(), size).
			Advise("Keep its size in the settings, or reset the sandbox to get a smaller disk.")
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
		return fmt.Errorf("a size of %d bytes is not a multiple of %d", size, blockSize)
	}
	return nil
}

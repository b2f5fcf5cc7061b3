//go:build linux

package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// visible lists the files in /proc that ps, top and language runtimes need.
func visible() []string {
	return []string{"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sysvipc", "uptime", "version"}
}

// processes makes /proc without other users' processes. It covers all files about the whole kernel
// except the visible ones, which are read-only.
func (b *builder) processes() error {
	file, folder, err := b.covers("proc")
	if err != nil {
		return err
	}
	defer unix.Close(file)
	defer unix.Close(folder)
	tree, err := newFS("proc", still, "hidepid=invisible")
	if err := b.mountAt("proc", tree, err); err != nil {
		return err
	}
	entries, err := b.list("proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		_, notProcess := strconv.Atoi(name)
		switch {
		case notProcess == nil, e.Type() == fs.ModeSymlink: // links lead into process folders
		case name == "sys", slices.Contains(visible(), name):
			err = b.cover("proc/"+name, func(at int) int { return at })
		case e.IsDir():
			err = b.cover("proc/"+name, func(int) int { return folder })
		default:
			err = b.cover("proc/"+name, func(int) int { return file })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// covers makes an empty file and an empty folder to mount over others. They are created in a folder
// that is itself mounted over later. /dev/null would not do: it accepts writes.
func (b *builder) covers(under string) (file, folder int, err error) {
	tree, err := newFS("tmpfs", still, "mode=0555", "size=4k")
	if err := b.mountAt(under, tree, err); err != nil {
		return -1, -1, err
	}
	at, err := openBeneath(b.root, under, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, -1, err
	}
	defer unix.Close(at)
	if err := errors.Join(unix.Mknodat(at, "file", unix.S_IFREG|0o444, 0), unix.Mkdirat(at, "folder", 0o555)); err != nil {
		return -1, -1, fmt.Errorf("make empty file and folder: %w", err)
	}
	if file, err = openBeneath(at, "file", unix.O_PATH); err != nil {
		return -1, -1, err
	}
	if folder, err = openBeneath(at, "folder", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		_ = unix.Close(file)
		return -1, -1, err
	}
	return file, folder, nil
}

// list reads a folder of the new root.
func (b *builder) list(path string) ([]fs.DirEntry, error) {
	fd, err := openBeneath(b.root, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return f.ReadDir(-1)
}

// cover mounts a file or folder read-only over a path of the new root, unless the path has gone.
// The callback with receives the open path and returns what to mount over it.
func (b *builder) cover(path string, with func(at int) int) error {
	at, err := openBeneath(b.root, path, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := bindOnto(with(at), at, sealed, 0); err != nil {
		return fmt.Errorf("cover %s: %w", path, err)
	}
	return nil
}

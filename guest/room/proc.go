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

// visible are the files at the top of /proc that ps, top and language runtimes need.
func visible() []string {
	return []string{"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sysvipc", "uptime", "version"}
}

// processes makes /proc without other users' processes. Of the files about the whole kernel only
// the visible ones remain, read-only. Kernels differ in the others, so all of them are covered.
func (b *builder) processes() error {
	file, folder, err := b.nothing("proc")
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
		case notProcess == nil, e.Type() == fs.ModeSymlink: // which leads to what is a process's own
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

// nothing makes an empty file and an empty folder to cover others with, in a folder that is mounted
// over afterwards. A cover of /dev/null would accept writes.
func (b *builder) nothing(under string) (file, folder int, err error) {
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
		return -1, -1, fmt.Errorf("make nothing: %w", err)
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

// list reads a folder of the root.
func (b *builder) list(path string) ([]fs.DirEntry, error) {
	fd, err := openBeneath(b.root, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return f.ReadDir(-1)
}

// cover mounts something over a path of the root, read-only, if the path is still there:
// what with says, of what is there.
func (b *builder) cover(path string, with func(at int) int) error {
	at, err := openBeneath(b.root, path, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := bindOf(with(at), sealed)
	if err != nil {
		return fmt.Errorf("cover %s: %w", path, err)
	}
	return mountOnto(tree, at)
}

//go:build linux

package layers

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// node is a name in a folder that overlays merge.
type node struct {
	path string // of the top file or folder
	stat unix.Stat_t
	dirs []string // of a folder: its parts, the top one first
	// closed says that what lower layers have at this name does not show.
	closed bool
}

func (n *node) isDir() bool { return n.stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// whiteout reports whether the name is deleted: a character device with number 0.
func (n *node) whiteout() bool { return n.stat.Mode&unix.S_IFMT == unix.S_IFCHR && n.stat.Rdev == 0 }

// shown returns what a program sees: nil for nothing.
func (n *node) shown() *node {
	if n == nil || n.whiteout() {
		return nil
	}
	return n
}

const (
	overlay = "trusted.overlay."
	opaque  = overlay + "opaque"
	// maxNames bounds the names of a merged folder, which are held in the guest's memory.
	maxNames = 100_000
)

// Mount mounts an overlay of folders, the top lower one first. Whatever the kernel's defaults are, a
// file's content is in the layer that has the file, and a layer does not depend on the one below it.
func Mount(at string, lower []string, upper, work string) error {
	options := "redirect_dir=off,metacopy=off,index=off,xino=off,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount the layers: %w", err)
	}
	return nil
}

// list merges folders, the top one first, as the kernel does.
func list(dirs []string) (map[string]*node, error) {
	nodes := map[string]*node{}
	for _, dir := range dirs {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		names, err := f.Readdirnames(maxNames)
		_ = f.Close()
		if err != nil && err != io.EOF {
			return nil, err
		}
		for _, name := range names {
			if err := add(nodes, filepath.Join(dir, name), name); err != nil {
				return nil, err
			}
		}
		if len(names) == maxNames || len(nodes) >= maxNames {
			return nil, fmt.Errorf("%s has %d names or more", dir, maxNames)
		}
	}
	return nodes, nil
}

// add adds a file or folder to what is above it.
func add(nodes map[string]*node, path, name string) error {
	above := nodes[name]
	if above != nil && above.closed {
		return nil
	}
	n := &node{path: path, closed: true}
	if err := unix.Lstat(path, &n.stat); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if n.isDir() {
		var value [1]byte
		_, err := unix.Lgetxattr(path, opaque, value[:])
		if err != nil && err != unix.ENODATA && err != unix.ENOTSUP {
			return &fs.PathError{Op: "getxattr", Path: path, Err: err}
		}
		n.dirs, n.closed = []string{path}, value[0] == 'y'
	}
	if above == nil {
		nodes[name] = n
	} else {
		above.dirs, above.closed = append(above.dirs, n.dirs...), n.closed
	}
	return nil
}

// Owned calls found for everything in merged folders whose user or group is one of a set. Paths are
// relative to the folders.
func Owned(dirs []string, by map[uint32]bool, at string, found func(path string, st unix.Stat_t) error) error {
	nodes, err := list(dirs)
	for name, n := range nodes {
		path := filepath.Join(at, name)
		if err == nil && n.shown() != nil && (by[n.stat.Uid] || by[n.stat.Gid]) {
			err = found(path, n.stat)
		}
		if err == nil && n.isDir() {
			err = Owned(n.dirs, by, path, found)
		}
	}
	return err
}

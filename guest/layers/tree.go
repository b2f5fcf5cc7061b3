//go:build linux

package layers

import (
	"errors"
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

const (
	opaque = "trusted.overlay.opaque"
	// maxNames bounds the names of a merged folder, which are held in the guest's memory.
	maxNames = 100_000
	batch    = 1024
)

// MountOptions returns the options of an overlay of folders, the top lower one first. Whatever the
// kernel's defaults are, a file's content is in the layer that has the file, and a layer does not depend
// on the one below it.
func MountOptions(lower []string, upper, work string) string {
	return "redirect_dir=off,metacopy=off,index=off,xino=off,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work
}

// list merges folders, the top one first, as the kernel does.
func list(dirs []string) (map[string]*node, error) {
	nodes := map[string]*node{}
	for _, dir := range dirs {
		err := names(dir, func(name string) error {
			n := nodes[name]
			if n != nil && n.closed {
				return nil
			}
			if len(nodes) >= maxNames {
				return fmt.Errorf("%s has more than %d names", dir, maxNames)
			}
			return add(nodes, n, dir, name)
		})
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// add adds a name of a lower folder to what is above it.
func add(nodes map[string]*node, above *node, dir, name string) error {
	n := &node{path: filepath.Join(dir, name)}
	if err := unix.Lstat(n.path, &n.stat); err != nil {
		return &fs.PathError{Op: "stat", Path: n.path, Err: err}
	}
	switch {
	case !n.isDir():
		if n.closed = true; above != nil {
			above.closed = true
			return nil
		}
	default:
		is, err := isOpaque(n.path)
		if err != nil {
			return err
		}
		if above != nil {
			above.dirs, above.closed = append(above.dirs, n.path), is
			return nil
		}
		n.dirs, n.closed = []string{n.path}, is
	}
	nodes[name] = n
	return nil
}

func isOpaque(dir string) (bool, error) {
	var value [1]byte
	n, err := unix.Lgetxattr(dir, opaque, value[:])
	if err == unix.ENODATA || err == unix.ENOTSUP {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "getxattr", Path: dir, Err: err}
	}
	return n == 1 && value[0] == 'y', nil
}

// names calls f for each name in a folder.
func names(dir string, f func(name string) error) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		batch, err := d.Readdirnames(batch)
		for _, name := range batch {
			if err := f(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// walk visits everything in merged folders, parents before what is in them. Paths are relative to the
// folders.
func walk(dirs []string, at string, visit func(path string, n *node) error) error {
	nodes, err := list(dirs)
	if err != nil {
		return err
	}
	for name, n := range nodes {
		path := filepath.Join(at, name)
		if err := visit(path, n); err != nil {
			return err
		}
		if n.isDir() {
			if err := walk(n.dirs, path, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Size returns the space that the files of a layer take. It counts what it can read.
func (s *Store) Size(id ID) (bytes uint64) {
	const block = 512
	_ = walk([]string{s.Path(id)}, "", func(_ string, n *node) error {
		bytes += uint64(n.stat.Blocks) * block
		return nil
	})
	return bytes
}

// Owned calls found for each path of layers, relative to the root, whose user or group is one of a
// set.
func (s *Store) Owned(ids []ID, by map[uint32]bool, found func(path string) error) error {
	return walk(s.Paths(ids), "", func(path string, n *node) error {
		if n.whiteout() || !by[n.stat.Uid] && !by[n.stat.Gid] {
			return nil
		}
		return found(path)
	})
}

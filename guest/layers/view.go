//go:build linux

package layers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
)

// Mount mounts an overlay of folders, the top lower one first. Whatever the kernel's defaults are, a
// file's content is in the layer that has the file, and a layer does not depend on the one below it.
func Mount(at string, lower []string, upper, work string) error {
	options := "redirect_dir=off,metacopy=off,index=off,xino=off,lowerdir=" + strings.Join(lower, ":")
	if upper != "" {
		options += ",upperdir=" + upper + ",workdir=" + work
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount the layers: %w", err)
	}
	return nil
}

// view mounts layers until do returns: read-only if there is no upper one.
func (s *Store) view(lower []string, upper, work string, do func(*os.Root) error) error {
	point, err := os.MkdirTemp(s.Run, ".view-")
	if err != nil {
		return err
	}
	defer os.Remove(point)
	if upper == "" {
		lower = append([]string{point}, lower...) // there must be two
	}
	if err := Mount(point, lower, upper, work); err != nil {
		return err
	}
	defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
	root, err := os.OpenRoot(point)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

// Diff lists what has changed since a snapshot of a room, which may run, as engine.Snapshots does.
func (s *Store) Diff(st *Stack, since Snapshot) (list []string, err error) {
	layers := st.Lower
	if s.Changed(st) {
		layers = append(slices.Clip(layers), st.Upper)
	}
	compare := func(sign string, one, other *os.Root) error {
		return Walk(one, func(_ *os.File, p string) (bool, error) {
			a, b := stat(path.Join(one.Name(), p)), stat(path.Join(other.Name(), p))
			folder := isDir(a) && isDir(b)
			change := ""
			switch {
			case len(list) >= engine.MaxPathChanges || a == nil:
				return false, nil
			case b == nil:
				change = sign
			case sign == "+ " && (a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev || !folder && (a.Size != b.Size || a.Mtim != b.Mtim)):
				change = "~ "
			}
			if change != "" && isDir(a) {
				list = append(list, change+"/"+p+"/")
			} else if change != "" {
				list = append(list, change+"/"+p)
			}
			return folder, nil
		})
	}
	err = s.view(s.Paths(since.Layers...), "", "", func(then *os.Root) error {
		return s.view(s.Paths(layers...), "", "", func(now *os.Root) error {
			if err := compare("+ ", now, then); err != nil {
				return err
			}
			return compare("- ", then, now)
		})
	})
	slices.SortFunc(list, func(a, b string) int { return slices.Compare(strings.Split(a[2:], "/"), strings.Split(b[2:], "/")) })
	return list, err
}

// Give gives a fork what the users whose layers it has own in them, in its own upper layer. The kernel
// could show it as the fork's with an idmapped mount, but that takes a user namespace, which the guest
// does not allow.
func (s *Store) Give(st *Stack, work string) error {
	owners := map[uint32]bool{}
	for _, id := range st.Lower {
		owners[id.UID()] = true
	}
	is := func(id uint32) int {
		if owners[id] {
			return int(st.Upper.UID())
		}
		return -1
	}
	return s.view(s.Paths(st.Lower...), s.Path(st.Upper), work, func(root *os.Root) error {
		for _, id := range st.Lower {
			layer, err := os.OpenRoot(s.Path(id))
			if err != nil {
				return err
			}
			defer layer.Close()
			err = Walk(layer, func(_ *os.File, p string) (bool, error) {
				st := stat(path.Join(root.Name(), p))
				if st == nil || !owners[st.Uid] && !owners[st.Gid] {
					return isDir(st), nil
				}
				return isDir(st), root.Lchown(p, is(st.Uid), is(st.Gid))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// batch is how many names of a folder are held in memory.
const batch = 1000

// Walk calls f for all names below a folder, which may change meanwhile: for a folder before what is in it,
// which is skipped unless f says to enter.
func Walk(top *os.Root, f func(dir *os.File, path string) (enter bool, err error)) error {
	for todo := []string{"."}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := each(top, at, func(dir *os.File, name string) error {
			p := path.Join(at, name)
			enter, err := f(dir, p)
			if enter {
				todo = append(todo, p)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for the names in a folder, unless it is gone.
func each(top *os.Root, at string, f func(dir *os.File, name string) error) error {
	dir, err := top.OpenFile(at, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := f(dir, name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stat returns what is at a path, or nil.
func stat(path string) *syscall.Stat_t {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return nil
	}
	return &st
}

func isDir(st *syscall.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFDIR }

// opaque is the attribute of a folder that hides those below it.
const opaque = "trusted.overlay.opaque"

// Opaque reports whether a folder of a layer hides those below it.
func Opaque(path string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(path, opaque, b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

func setOpaque(path string) error { return unix.Lsetxattr(path, opaque, []byte("y"), 0) }

// merge merges two layers of a room that it no longer needs apart, and reports whether there were such.
// The room must not run.
func (s *Store) merge(user string, st *Stack) (bool, error) {
	shared, err := s.used(user)
	if err != nil {
		return false, err
	}
	list := st.mergeable(shared)
	if list == nil {
		return false, nil
	}
	n := len(list) - 2
	from, err := os.OpenRoot(s.Path(list[n]))
	if err != nil {
		return false, err
	}
	defer from.Close()
	to, err := os.OpenRoot(s.Path(list[n+1]))
	if err != nil {
		return false, err
	}
	defer to.Close()
	err = s.view(s.Paths(list[:n]...), "", "", func(below *os.Root) error { return s.fold(from, to, ".", below.Name()) })
	if err == nil {
		st.drop(list[n])
		err = s.Write(user, st)
	}
	return err == nil, errors.Join(err, s.Sweep())
}

// fold moves what is in a folder of a layer into that of the layer over it. Below is what those under
// both show, or "". After each step the layers show what they showed, so the rest can be done later.
func (s *Store) fold(from, to *os.Root, at, below string) error {
	was, err := to.Stat(at)
	if err != nil {
		return err
	}
	if Opaque(path.Join(from.Name(), at)) {
		below, err = "", setOpaque(path.Join(to.Name(), at))
	}
	err = errors.Join(err, each(from, at, func(_ *os.File, name string) (err error) {
		p := path.Join(at, name)
		old, new := path.Join(from.Name(), p), path.Join(to.Name(), p)
		a, b := stat(old), stat(new)
		switch {
		case b == nil:
			return os.Rename(old, new)
		case isDir(a) && isDir(b) && !Opaque(new):
			err = s.fold(from, to, p, below)
		case isDir(a):
			return s.Discard(old)
		case isDir(b):
			err = setOpaque(new)
		}
		if err == nil {
			err = os.Remove(old)
		}
		return err
	}))
	if err != nil {
		return err
	}
	// In a folder that only one layer has, the kernel would list names that are deleted.
	err = each(to, at, func(_ *os.File, name string) error {
		p := path.Join(at, name)
		st := stat(path.Join(to.Name(), p))
		if st == nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 || below != "" && stat(path.Join(below, p)) != nil {
			return nil
		}
		return to.Remove(p)
	})
	return errors.Join(err, to.Chtimes(at, time.Time{}, was.ModTime()))
}

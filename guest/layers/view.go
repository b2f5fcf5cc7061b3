//go:build linux

package layers

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

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

// view mounts layers until do returns; without an upper one nothing can be changed.
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

//go:build linux

package room

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// NewFS creates a file system that is not attached to any path yet.
func NewFS(kind string, attributes int, options ...string) (*os.File, error) {
	fd, err := newFS(kind, attributes, options...)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), kind), nil
}

// inMounts runs f on a thread in the room's mount namespace.
func (r *Room) inMounts(f func() error) error {
	return process.InNamespaces(int(r.pidfd.Fd()), unix.CLONE_NEWNS, f)
}

// Attach mounts tree at a path of the room, which it makes without following links. Below the home,
// it has the agent's permissions.
func (r *Room) Attach(tree *os.File, path string) error {
	return r.inMounts(func() error {
		top, err := openNoLinks("/", unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(top)
		at := -1
		if below, ok := strings.CutPrefix(path, r.spec.Home+"/"); ok {
			err = process.As(r.Place(false).Credential(), func() error {
				home, err := openBeneath(top, r.spec.Home[1:], unix.O_PATH|unix.O_DIRECTORY)
				if err != nil {
					return err
				}
				defer unix.Close(home)
				at, err = folder(home, below)
				return err
			})
		} else {
			at, err = folder(top, path)
		}
		if err != nil {
			return err
		}
		defer unix.Close(at)
		if err := unix.MoveMount(int(tree.Fd()), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return nil
	})
}

// Detach unmounts tree, wherever the agent has moved it in the meantime. Requests of FUSE fail.
func (r *Room) Detach(tree *os.File) error {
	// The room's own /proc does not show this process.
	descriptors, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer descriptors.Close()
	return r.inMounts(func() error {
		if err := unix.Fchdir(int(descriptors.Fd())); err != nil {
			return err
		}
		return unix.Unmount(strconv.Itoa(int(tree.Fd())), unix.MNT_FORCE|unix.MNT_DETACH)
	})
}

// reviewsOf names the folder of a user's reviews, beside the user's layer: a reset discards the layer
// but not what a person has not reviewed. User names have no dot.
func reviewsOf(user string) string { return user + ".reviews" }

// Review makes the folders of a reviewed mount: one in the guest, where rooms cannot see what is
// mounted, the upper layer, and the one of overlayfs. The last two count in the room's quota.
func (m *Manager) Review(r *Room, name string) (lower, upper, work string, err error) {
	upper, uid := m.Upper(r.User(), name), int(r.spec.Uid)
	lower, work = filepath.Join(m.opts.Run, reviewsOf(r.User())+"."+name), filepath.Join(filepath.Dir(upper), "work")
	err = errors.Join(os.MkdirAll(lower, 0o700), os.MkdirAll(filepath.Dir(upper), 0o700))
	for _, path := range []string{upper, work} {
		err = errors.Join(err, os.MkdirAll(path, 0o755), os.Chown(path, uid, uid), setProject(path, r.spec.Uid))
	}
	if err != nil {
		err = fault.New(fault.Execution, "keep changes", name, err).Advise("If the data disk is full or damaged, reset it.")
	}
	return lower, upper, work, err
}

// Upper returns the folder of a mount's upper layer, which may not exist.
func (m *Manager) Upper(user, name string) string {
	return filepath.Join(m.opts.Data, reviewsOf(user), name, "upper")
}

// DiscardReviews discards what a user has changed in a mount, or without a name in all of them.
func (m *Manager) DiscardReviews(user, name string) error {
	return m.discard(filepath.Join(m.opts.Data, reviewsOf(user), name))
}

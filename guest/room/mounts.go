//go:build linux

package room

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// UID is the Linux user id of the room's agent.
func (r *Room) UID() uint32 { return r.spec.Uid }

// NewFS creates a file system that is not attached to any path yet.
func NewFS(kind string, attributes int, options ...string) (*os.File, error) {
	fd, err := newFS(kind, attributes, options...)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), kind), nil
}

// OpenBeneath opens a path below a folder without following links.
func OpenBeneath(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := openBeneath(int(dir.Fd()), name, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
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

// Users returns at most limit programs of the room that have a file, folder or program of a mount
// open. A program may have copies of the mount in a namespace of its own.
func (r *Room) Users(tree *os.File, limit int) (list []*guestpb.MountUser, err error) {
	var st unix.Statx_t
	if err := unix.Statx(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return nil, err
	}
	device := fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)
	for _, pid := range r.group.processes() {
		proc := fmt.Sprintf("/proc/%d/", pid)
		if len(list) == limit {
			break
		}
		if name, err := os.ReadFile(proc + "comm"); err == nil && uses(proc, mountsOf(proc, device)) {
			list = append(list, &guestpb.MountUser{Pid: int32(pidInside(proc)), Command: bytes.TrimSpace(name)})
		}
	}
	return list, nil
}

// mountsOf returns the ids of a file system's mounts in a process's namespace.
func mountsOf(proc, device string) map[uint64]bool {
	text, _ := os.ReadFile(proc + "mountinfo")
	ids := map[uint64]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == device {
			id, _ := strconv.ParseUint(f[0], 10, 64)
			ids[id] = true
		}
	}
	return ids
}

// uses reports whether a process uses a mount.
func uses(proc string, mounts map[uint64]bool) bool {
	links := []string{proc + "cwd", proc + "root", proc + "exe"}
	for _, dir := range []string{"fd/", "map_files/"} {
		entries, _ := os.ReadDir(proc + dir)
		for _, e := range entries {
			links = append(links, proc+dir+e.Name())
		}
	}
	for _, link := range links {
		var st unix.Statx_t
		if unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st) == nil && mounts[st.Mnt_id] {
			return true
		}
	}
	return false
}

// pidInside returns a process's pid in the room, which is the last of its pids.
func pidInside(proc string) int {
	text, _ := os.ReadFile(proc + "status")
	for line := range strings.Lines(string(text)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(pids)
			pid, _ := strconv.Atoi(f[len(f)-1])
			return pid
		}
	}
	return 0
}

// MountFolder returns an empty folder of the guest to mount a file system on that rooms cannot see.
func (m *Manager) MountFolder(user, name string) (string, error) {
	path := filepath.Join(m.opts.Run, reviewsOf(user), name)
	return path, os.MkdirAll(path, 0o700)
}

// reviewsOf names the folder of a user's reviews, beside the user's layer: a reset discards the layer
// but not what a person has not reviewed. User names have no dot.
func reviewsOf(user string) string { return user + ".reviews" }

// Review returns the folders of the upper layer and of overlayfs for the user's mount with a name. It
// makes missing ones, which count in the room's quota.
func (m *Manager) Review(r *Room, name string) (upper, work string, err error) {
	const op = "keep changes"
	dir := filepath.Join(m.opts.Data, reviewsOf(r.User()), name)
	upper, work = m.Upper(r.User(), name), filepath.Join(dir, "work")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fault.New(fault.Execution, op, name, err).Advise("If the data disk is full or damaged, reset it.")
	}
	uid := int(r.spec.Uid)
	if b, ok := uidOf(dir); ok && int(b) != uid {
		return "", "", fault.Newf(fault.Rejected, op, name, "the changes belong to user id %d, not %d", b, uid).Advise("Forget them first.")
	}
	err = os.WriteFile(filepath.Join(dir, "uid"), strconv.AppendInt(nil, int64(uid), 10), 0o600)
	for _, path := range []string{upper, work} {
		if made := os.Mkdir(path, 0o755); made == nil {
			err = errors.Join(err, os.Chown(path, uid, uid), setProject(path, r.spec.Uid))
		} else if !errors.Is(made, os.ErrExist) {
			err = errors.Join(err, made)
		}
	}
	if err != nil {
		return "", "", fault.New(fault.Execution, op, name, err).Advise("If the data disk is full or damaged, reset it.")
	}
	return upper, work, nil
}

// Upper returns the folder of a mount's upper layer, which may not exist.
func (m *Manager) Upper(user, name string) string {
	return filepath.Join(m.opts.Data, reviewsOf(user), name, "upper")
}

// DiscardReview discards the changes of a mount, and DiscardReviews those of all mounts of a user.
func (m *Manager) DiscardReview(user, name string) error {
	return m.discard(filepath.Join(m.opts.Data, reviewsOf(user), name))
}

// DiscardReviews discards what a user has changed in all mounts.
func (m *Manager) DiscardReviews(user string) error {
	return m.discard(filepath.Join(m.opts.Data, reviewsOf(user)))
}

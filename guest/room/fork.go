//go:build linux

package room

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
)

// Fork gives a new user, who has no layers, those of a room, with an empty one over them. What the
// room has written is frozen first.
func (m *Manager) Fork(ctx context.Context, r *guestpb.ForkRoomRequest) error {
	const op = "fork room"
	return m.onStack(ctx, op, r.User, func(room *Room, st *layers.Stack) error {
		other, err := m.lock(ctx, r.To, true) // a new user, so nobody waits the other way round
		if err != nil {
			return err
		}
		defer other.unlock()
		fork := &Room{spec: &guestpb.Room{User: r.To, Uid: r.ToUid}, layer: filepath.Join(m.opts.Data, r.To), files: filepath.Join(m.opts.Run, r.To)}
		if _, err := os.Lstat(fork.layer); other.room.Load() != nil || err == nil {
			return fault.Newf(fault.Rejected, op, r.To, "it has a room already").Advise("Choose another name.")
		}
		if m.layers.Changed(st) {
			if err = st.May(""); err == nil {
				err = m.freeze(ctx, op, room, st, r.Stop)
			}
			if err == nil {
				err = m.layers.Write(r.User, st)
			}
		}
		if err == nil {
			err = m.layers.Fork(st, r.To, r.ToUid)
		}
		if err == nil {
			err = fork.folders(m)
		}
		if err == nil {
			err = errors.Join(fork.disk.Close(), m.own(st.Lower, fork), clone.Sync(m.opts.Data))
		}
		return err
	})
}

// own gives the files of users whose layers a fork has to the fork's user, in its own upper layer. The
// kernel could show them as that user's with an idmapped mount, but that takes a user namespace, which
// the guest does not allow.
func (m *Manager) own(lower []layers.ID, fork *Room) error {
	owners := map[uint32]bool{}
	for _, id := range lower {
		owners[id.UID()] = true
	}
	point, err := os.MkdirTemp(m.opts.Run, ".fork-")
	if err != nil {
		return err
	}
	defer os.Remove(point)
	if err := layers.Mount(point, fork.lower, fork.upper, filepath.Join(fork.layer, "work")); err != nil {
		return err
	}
	defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
	root, err := os.OpenRoot(point)
	if err != nil {
		return err
	}
	defer root.Close()
	is := func(id uint32) int {
		if owners[id] {
			return int(fork.spec.Uid)
		}
		return -1
	}
	return layers.Owned(fork.lower[:len(lower)], owners, "", func(path string, st unix.Stat_t) error {
		return root.Lchown(path, is(st.Uid), is(st.Gid))
	})
}

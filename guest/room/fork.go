//go:build linux

package room

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/internal/fault"
)

// Fork gives a new user, who has no layers, those of a room, with an empty one over them. What the
// room has written is frozen first.
func (m *Manager) Fork(ctx context.Context, r *guestpb.ForkRoomRequest) error {
	const op = "fork room"
	e, st, err := m.stack(ctx, op, r.User)
	if err != nil {
		return err
	}
	defer e.unlock()
	other, err := m.lock(ctx, r.To, true) // a new user, so nobody waits the other way round
	if err != nil {
		return err
	}
	defer other.unlock()
	layer := filepath.Join(m.opts.Data, r.To)
	if _, err := os.Lstat(layer); other.room.Load() != nil || err == nil {
		return fault.Newf(fault.Rejected, op, r.To, "it has a room already").Advise("Choose another name.")
	}
	changed, err := m.layers.Changed(st)
	if err == nil && changed {
		if err = st.May("", true); err == nil {
			err = m.freeze(ctx, op, e, st, r.Stop)
		}
		if err == nil {
			err = m.layers.Write(r.User, st)
		}
	}
	if err != nil {
		return fault.Wrap(op, r.User, err)
	}
	if err := m.makeFork(st, layer, r); err != nil {
		return layersFault(op, r.To, err)
	}
	return nil
}

// makeFork makes the folder of a fork in the trash, which the next boot empties, and moves it to its
// place when it is whole.
func (m *Manager) makeFork(from *layers.Stack, to string, r *guestpb.ForkRoomRequest) error {
	aside := filepath.Join(m.opts.Data, trash, rand.Text())
	work := filepath.Join(aside, "work")
	st, upper, unpin, err := m.layers.Fork(from, r.ToUid)
	defer unpin()
	if err == nil {
		err = errors.Join(os.MkdirAll(work, 0o700), setProject(work, r.ToUid), m.recordBase(aside),
			os.WriteFile(filepath.Join(aside, "uid"), strconv.AppendUint(nil, uint64(r.ToUid), 10), 0o600))
	}
	if err == nil {
		err = m.own(st, r.ToUid, upper, work)
	}
	if err == nil {
		err = m.layers.WriteAt(aside, st)
	}
	if err == nil {
		err = errors.Join(m.layers.Sync(), os.Rename(aside, to))
	}
	if err != nil {
		m.tidyLayers(r.To)
		return errors.Join(err, m.discard(aside))
	}
	return m.layers.Sync()
}

// own gives the files of users whose layers a fork has to the fork's user, in its own upper layer. The
// kernel could show them as that user's with an idmapped mount, but that takes a user namespace, which
// the guest does not allow.
func (m *Manager) own(st *layers.Stack, uid uint32, upper, work string) error {
	owners := map[uint32]bool{}
	for _, id := range st.Lower {
		owners[st.Layers[id].UID] = true
	}
	var paths []string
	if err := m.layers.Owned(st.Lower, owners, func(path string) error {
		paths = append(paths, path)
		return nil
	}); err != nil || len(paths) == 0 {
		return err
	}
	point, err := os.MkdirTemp(m.opts.Run, ".fork-")
	if err != nil {
		return err
	}
	defer os.Remove(point)
	if err := mountRoot(point, append(m.layers.Paths(st.Lower), m.opts.Base), upper, work); err != nil {
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
			return int(uid)
		}
		return -1
	}
	for _, path := range paths {
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		at := info.Sys().(*syscall.Stat_t)
		if err := root.Lchown(path, is(at.Uid), is(at.Gid)); err != nil {
			return err
		}
	}
	return nil
}

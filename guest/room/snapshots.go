//go:build linux

package room

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
)

// onStack does something with the layers of a room that was made in this boot. Nobody else changes them
// meanwhile.
func (m *Manager) onStack(ctx context.Context, op, user string, do func(*Room, *layers.Stack) error) error {
	e, err := m.lock(ctx, user, false)
	if err != nil {
		return err
	}
	defer e.unlock()
	if e.room.Load() == nil {
		return missing(user)
	}
	st, err := m.layers.Read(user)
	if err == nil {
		err = do(e.room.Load(), st)
	}
	if _, ok := err.(*fault.Error); ok || err == nil {
		return err
	}
	return fault.New(fault.Execution, op, user, err).Advise("If the data disk is full, delete snapshots or files; if it is damaged, reset it.")
}

// beforeRestore begins the names of snapshots that restoring makes.
const beforeRestore = "before-restore"

// ChangeSnapshot creates, restores or deletes a snapshot: see engine.Snapshots.
func (m *Manager) ChangeSnapshot(ctx context.Context, r *guestpb.ChangeSnapshotRequest) (made string, err error) {
	op := r.Action + " snapshot"
	err = m.onStack(ctx, op, r.User, func(room *Room, st *layers.Stack) (err error) {
		switch engine.SnapshotAction(r.Action) {
		case engine.CreateSnapshot:
			if layers.Automatic(r.Name) && st.Named() && !m.layers.Changed(st) {
				return nil
			}
			if err = st.May(r.Name); err == nil {
				err = m.freeze(ctx, op, room, st, r.Stop)
			}
			if err == nil {
				made = st.Add(r.Name, time.Now())
			}
		case engine.RestoreSnapshot:
			to, err := st.Find(r.Name)
			if err == nil {
				err = m.freeze(ctx, op, room, st, r.Stop)
			}
			if err == nil {
				err = room.end(ctx, op, r.Stop)
			}
			if err != nil {
				return err
			}
			if !st.Named() {
				made = st.Add(beforeRestore, time.Now())
			}
			st.Restore(to)
		case engine.DeleteSnapshot:
			err = st.Delete(r.Name)
		default:
			err = fault.Newf(fault.InvalidArgs, op, r.User, "it is neither create nor restore nor delete")
		}
		if err == nil {
			err = m.layers.Write(r.User, st)
		}
		if err == nil {
			err = m.layers.Sweep()
		}
		return err
	})
	return made, err
}

// freeze ends a room that has written something and freezes that. The caller writes the stack; the next
// command makes the room again.
func (m *Manager) freeze(ctx context.Context, op string, r *Room, st *layers.Stack, stop bool) error {
	if !m.layers.Changed(st) {
		return nil
	}
	err := r.end(ctx, op, stop)
	if err == nil {
		st.Freeze()
	}
	return err
}

// settleTime is how long programs that have just ended may take to disappear.
const settleTime = time.Second

// end ends a room in which nothing runs, or with stop whatever does.
func (r *Room) end(ctx context.Context, op string, stop bool) error {
	for late := time.Now().Add(settleTime); !stop && !r.dead(); {
		running := r.running()
		if running == "" {
			break
		}
		if time.Now().After(late) {
			return fault.Newf(fault.Rejected, op, r.spec.User, "%s runs in the room", running).Advise("Wait for it, end it, or use --stop.")
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fault.Wrap(op, r.spec.User, ctx.Err())
		}
	}
	r.init.Release()
	if !r.dead() {
		return fault.Newf(fault.Execution, op, r.spec.User, "its first process has not ended").Advise("Try again; a process may be waiting for a share.")
	}
	return nil
}

// running names a program that runs in the room, if there is one.
func (r *Room) running() string {
	for _, pid := range r.group.processes() {
		if p := describe(pid, time.Time{}); p != nil && p.State != "Z" { // which has ended
			return fmt.Sprintf("%s (pid %d)", strings.Trim(string(p.Command), "[]"), pid)
		}
	}
	return ""
}

// Snapshots lists the snapshots of a room.
func (m *Manager) Snapshots(ctx context.Context, user string) (list []*guestpb.Snapshot, err error) {
	err = m.onStack(ctx, "list snapshots", user, func(_ *Room, st *layers.Stack) error {
		for _, s := range st.Snapshots {
			list = append(list, &guestpb.Snapshot{Name: s.Name, MadeUnixNano: s.Time.UnixNano()})
		}
		return nil
	})
	return list, err
}

// DiffSnapshot lists what has changed in a room's root since a snapshot, while the room may run.
func (m *Manager) DiffSnapshot(ctx context.Context, user, name string) (changes [][]byte, err error) {
	err = m.onStack(ctx, "compare with snapshot", user, func(_ *Room, st *layers.Stack) error {
		since, err := st.Find(name)
		if err != nil {
			return err
		}
		list, err := m.layers.Diff(st, since)
		for _, change := range list {
			changes = append(changes, []byte(change))
		}
		return err
	})
	return changes, err
}

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
			st, err = m.layers.Fork(st, r.To, r.ToUid)
		}
		if err == nil {
			err = fork.folders(m)
		}
		if err == nil {
			err = errors.Join(fork.disk.Close(), m.layers.Give(st, filepath.Join(fork.layer, "work")), clone.Sync(m.opts.Data))
		}
		return err
	})
}

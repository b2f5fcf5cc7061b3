//go:build linux

package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
)

// Service implements the services Rooms and Snapshots.
type Service struct {
	*Manager
	// LetGo ends a user's file worker, which keeps a layer from being frozen, with stop also shells, jobs
	// and mounts. It may wait for the turn of the user's room.
	LetGo func(user string, stop bool)
}

// errHeld interrupts a request that must end the room, until LetGo has ended what uses the room.
var errHeld = errors.New("the room is in use")

// onStack changes the layers of a room. Do checks the request before it calls end, which ends the room. The
// first call of end fails with errHeld; onStack then calls LetGo and runs do again. So a refused request ends
// nothing.
func (s Service) onStack(ctx context.Context, op, user string, stop bool, do func(st *layers.Stack, end func() error) error) error {
	err := s.inTurn(ctx, op, user, func(_ *Room, st *layers.Stack) error { return do(st, func() error { return errHeld }) })
	if !errors.Is(err, errHeld) {
		return err
	}
	s.LetGo(user, stop)
	return s.inTurn(ctx, op, user, func(room *Room, st *layers.Stack) error {
		return do(st, func() error { return room.end(ctx, op, stop) })
	})
}

// inTurn runs do with a room that was made in this boot and its layers. Nobody else changes them meanwhile.
func (m *Manager) inTurn(ctx context.Context, op, user string, do func(*Room, *layers.Stack) error) error {
	give, err := m.turns.Take(ctx, user, nil)
	if err != nil {
		return err
	}
	defer give()
	room := m.of(user)
	if room == nil {
		return missing(user)
	}
	st, err := m.layers.Read(user)
	if err == nil {
		err = do(room, st)
	}
	if _, ok := err.(*fault.Error); ok || err == nil {
		return err
	}
	return fault.New(fault.Execution, op, user, err).Advise("If the data disk is full, delete snapshots or files; if it is damaged, reset it.")
}

// Change creates, restores or deletes a snapshot: see engine.Snapshots.
func (s Service) Change(ctx context.Context, r *guestpb.ChangeSnapshotRequest) (*guestpb.ChangeSnapshotResponse, error) {
	op, made := r.Action+" snapshot", ""
	if _, err := config.ParseSnapshotName(r.Name); err != nil {
		return nil, err
	}
	err := s.onStack(ctx, op, r.User, r.Stop, func(st *layers.Stack, end func() error) (err error) {
		made = ""
		switch engine.SnapshotAction(r.Action) {
		case engine.CreateSnapshot:
			if layers.Automatic(r.Name) && st.Named() && !s.layers.Changed(st) {
				return nil
			}
			if err = st.May(r.Name); err == nil {
				err = s.freeze(st, end)
			}
			made = st.Add(r.Name, time.Now()) // which counts when it is written
		case engine.RestoreSnapshot:
			var to layers.Snapshot
			if to, err = st.Find(r.Name); err == nil {
				err = s.freeze(st, end)
			}
			if err == nil {
				err = end()
			}
			if !st.Named() {
				made = st.Add(engine.AutomaticSnapshot+"restore", time.Now())
			}
			st.Restore(to)
		case engine.DeleteSnapshot:
			err = st.Delete(r.Name)
		default:
			err = fault.Newf(fault.InvalidArgs, op, r.User, "the action must be create, restore or delete")
		}
		if err == nil {
			err = s.layers.Write(r.User, st)
		}
		if err == nil {
			err = s.layers.Sweep()
		}
		return err
	})
	return &guestpb.ChangeSnapshotResponse{Snapshot: made}, err
}

// freeze ends a room that has written something and freezes that. The caller writes the stack; the next
// command makes the room again.
func (m *Manager) freeze(st *layers.Stack, end func() error) error {
	if !m.layers.Changed(st) {
		return nil
	}
	err := end()
	if err == nil {
		st.Freeze()
	}
	return err
}

// settleTime is how long programs that have just ended may take to disappear.
const settleTime = time.Second

// end ends a room in which nothing runs, or with stop whatever does.
func (r *Room) end(ctx context.Context, op string, stop bool) error {
	for late := time.Now().Add(settleTime); !stop && !r.dead(); time.Sleep(10 * time.Millisecond) {
		running := r.running()
		if running == "" {
			break
		}
		if time.Now().After(late) || ctx.Err() != nil {
			return fault.Newf(fault.Rejected, op, r.spec.User, "%s runs in the room", running).Advise("Wait for it, end it, or use --stop.")
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

// List lists the snapshots of a room.
func (s Service) List(ctx context.Context, r *guestpb.ListSnapshotsRequest) (*guestpb.ListSnapshotsResponse, error) {
	a := &guestpb.ListSnapshotsResponse{}
	return a, s.inTurn(ctx, "list snapshots", r.User, func(_ *Room, st *layers.Stack) error {
		for _, s := range st.Snapshots {
			a.Snapshots = append(a.Snapshots, &guestpb.Snapshot{Name: s.Name, MadeUnixNano: s.Time.UnixNano()})
		}
		return nil
	})
}

// Diff lists what has changed in a room's root since a snapshot, while the room may run.
func (s Service) Diff(ctx context.Context, r *guestpb.DiffSnapshotRequest) (*guestpb.DiffSnapshotResponse, error) {
	a := &guestpb.DiffSnapshotResponse{}
	return a, s.inTurn(ctx, "compare with snapshot", r.User, func(_ *Room, st *layers.Stack) error {
		since, err := st.Find(r.Name)
		if err != nil {
			return err
		}
		list, err := s.layers.Diff(st, since)
		for _, change := range list {
			a.Changes = append(a.Changes, []byte(change))
		}
		return err
	})
}

// Fork gives a new user, who has no layers, those of a room, with an empty one over them. What the
// room has written is frozen first.
func (s Service) Fork(ctx context.Context, r *guestpb.ForkRoomRequest) (*guestpb.ForkRoomResponse, error) {
	const op = "fork room"
	if err := protocol.CheckUser(r.To); err != nil || r.To == r.User {
		return nil, fault.Newf(fault.InvalidArgs, op, r.To, "not the name of a new user")
	}
	return &guestpb.ForkRoomResponse{}, s.onStack(ctx, op, r.User, r.Stop, func(st *layers.Stack, end func() error) error {
		give, err := s.turns.Take(ctx, r.To, nil) // a new user, so nobody waits the other way round
		if err != nil {
			return err
		}
		defer give()
		fork, err := s.newcomer(op, &guestpb.Room{User: r.To, Uid: r.ToUid})
		if err != nil {
			return err
		}
		if s.layers.Changed(st) {
			if err = st.May(engine.AutomaticSnapshot + "fork"); err == nil {
				err = s.freeze(st, end)
			}
			if err == nil {
				err = s.layers.Write(r.User, st)
			}
		}
		if err == nil {
			st, err = s.layers.Fork(st, r.To, r.ToUid)
		}
		if err == nil {
			err = fork.folders(s.Manager)
		}
		if err == nil {
			err = errors.Join(fork.disk.Close(), s.layers.Give(st, filepath.Join(fork.layer, "work")), clone.Sync(s.opts.Data))
		}
		return err
	})
}

// newcomer returns a room for the folders of a user who has none.
func (m *Manager) newcomer(op string, spec *guestpb.Room) (*Room, error) {
	r := &Room{spec: spec, layer: filepath.Join(m.opts.Data, spec.User), files: filepath.Join(m.opts.Run, spec.User)}
	if _, err := os.Lstat(r.layer); err == nil {
		return nil, fault.Newf(fault.Rejected, op, spec.User, "it has a room already").Advise("Choose another name.")
	}
	return r, nil
}

// Export writes the layers of a room as an archive.
func (m *Manager) Export(user string, to io.Writer) error { return m.layers.Export(user, to) }

// Import gives a new user the layers of an archive, within its disk quota: the thread gives up the right to
// exceed quotas.
func (m *Manager) Import(spec *guestpb.Room, from io.Reader) error {
	r, err := m.newcomer("import room", spec)
	if err != nil {
		return err
	}
	if err := r.folders(m); err != nil {
		return err
	}
	defer r.disk.Close()
	l := m.defaults(spec.Limits)
	err = errors.Join(setLimits(r.disk, spec.Uid, l.DiskBytes, l.DiskFiles), setEffective(0, 1<<unix.CAP_SYS_RESOURCE))
	if err != nil {
		return err
	}
	return m.layers.Import(spec.User, from)
}

//go:build linux

package room

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/layers"
	"osaurus-sandbox/internal/fault"
)

// openLayers opens the layers of a room that is being made.
func (m *Manager) openLayers(r *Room) error {
	st, err := m.layers.Open(r.spec.User, r.spec.Uid)
	if err != nil {
		return err
	}
	r.mounted = append(slices.Clone(st.Lower), st.Upper)
	r.upper, r.lower = m.layers.Path(st.Upper), m.layers.Paths(st.Lower)
	return nil
}

// tidyLayers merges layers that a user's room no longer needs apart and discards those that nobody
// needs, in the background. What fails is tried again after the next change.
func (m *Manager) tidyLayers(user string) {
	lock := func() (func(), error) {
		e, err := m.lock(context.Background(), user, false)
		if err != nil {
			return nil, err
		}
		return e.unlock, nil
	}
	go func() {
		for more := true; more; {
			more, _ = m.layers.Merge(user, lock)
		}
		rooms, _ := m.rooms("") // no error without a user
		var mounted []layers.ID
		for _, r := range rooms {
			mounted = append(mounted, r.mounted...)
		}
		_ = m.layers.Collect(mounted)
	}()
}

// stack locks a room that was made in this boot and returns its stack.
func (m *Manager) stack(ctx context.Context, op, user string) (*entry, *layers.Stack, error) {
	e, err := m.lock(ctx, user, false)
	if err != nil {
		return nil, nil, err
	}
	if e.room.Load() == nil {
		e.unlock()
		return nil, nil, missing(user)
	}
	st, err := m.layers.Read(user)
	if err != nil {
		e.unlock()
		return nil, nil, layersFault(op, user, err)
	}
	return e, st, nil
}

func layersFault(op, user string, err error) error {
	return fault.New(fault.Execution, op, user, err).Advise("If the data disk is full, delete snapshots or files; if it is damaged, reset it.")
}

// CreateSnapshot makes a snapshot of a room's root. It returns nil if an automatic one would be the
// same as the last.
func (m *Manager) CreateSnapshot(ctx context.Context, r *guestpb.CreateSnapshotRequest) (*guestpb.Snapshot, error) {
	const op = "make snapshot"
	e, st, err := m.stack(ctx, op, r.User)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	changed, err := m.layers.Changed(st)
	if err != nil {
		return nil, layersFault(op, r.User, err)
	}
	if r.Automatic && !changed && st.Named() {
		return nil, nil
	}
	name := r.Name
	if r.Automatic {
		name = st.Automatic(name, time.Now())
	}
	if err := st.May(name, r.Automatic); err != nil {
		return nil, err
	}
	if changed {
		if err := m.freeze(ctx, op, e, st, r.Stop); err != nil {
			return nil, err
		}
	}
	made := st.Add(name, r.Automatic, time.Now())
	if err := m.layers.Write(r.User, st); err != nil {
		return nil, layersFault(op, r.User, err)
	}
	m.tidyLayers(r.User)
	return describeSnapshot(st, made, true), nil
}

// freeze ends a room and freezes what it has written. The caller writes the stack; the next command makes
// the room again.
func (m *Manager) freeze(ctx context.Context, op string, e *entry, st *layers.Stack, stop bool) error {
	r := e.room.Load()
	if err := r.end(ctx, op, stop); err != nil {
		return err
	}
	if err := m.layers.Sync(); err != nil {
		return layersFault(op, r.spec.User, err)
	}
	st.Freeze(layers.Layer{UID: r.spec.Uid, Bytes: m.layers.Size(st.Upper)})
	return nil
}

// settleTime is how long programs that have just ended may take to disappear.
const settleTime = time.Second

// end ends a room in which nothing runs, or with stop whatever does. Its /tmp stays.
func (r *Room) end(ctx context.Context, op string, stop bool) error {
	r.keepTemporary = true
	if r.dead() {
		return nil
	}
	for late := time.Now().Add(settleTime); !stop; {
		running := r.running()
		if len(running) == 0 {
			break
		}
		if time.Now().After(late) {
			return fault.Newf(fault.Rejected, op, r.spec.User, "programs run in the room: %s", strings.Join(running, ", ")).
				Advise("Wait for them, end them, or use --stop.")
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.init.Release()
	if !r.dead() {
		return fault.Newf(fault.Execution, op, r.spec.User, "its first process has not ended").Advise("Try again; a process may be waiting for a share.")
	}
	return nil
}

// maxNamed bounds the programs that an error names.
const maxNamed = 5

// running names the programs that run in the room.
func (r *Room) running() (list []string) {
	for _, pid := range r.group.processes() {
		p := describe(pid, time.Time{})
		switch {
		case p == nil || p.State == "Z": // ended
		case len(list) == maxNamed:
			return append(list, "…")
		default:
			list = append(list, fmt.Sprintf("%s (pid %d)", strings.Trim(string(p.Command), "[]"), pid))
		}
	}
	return list
}

// Snapshots lists the snapshots of a room.
func (m *Manager) Snapshots(ctx context.Context, user string) ([]*guestpb.Snapshot, error) {
	const op = "list snapshots"
	e, st, err := m.stack(ctx, op, user)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	changed, err := m.layers.Changed(st)
	if err != nil {
		return nil, layersFault(op, user, err)
	}
	var list []*guestpb.Snapshot
	for _, s := range st.Snapshots {
		list = append(list, describeSnapshot(st, s, !changed && slices.Equal(s.Layers, st.Lower)))
	}
	return list, nil
}

func describeSnapshot(st *layers.Stack, s layers.Snapshot, current bool) *guestpb.Snapshot {
	d := &guestpb.Snapshot{Name: s.Name, MadeUnixNano: s.Time.UnixNano(), Automatic: s.Automatic, Current: current}
	if n := len(s.Layers); n > 0 {
		d.Bytes = st.Layers[s.Layers[n-1]].Bytes
	}
	return d
}

// DiffSnapshot lists what has changed in a room's root since a snapshot, while the room may run.
func (m *Manager) DiffSnapshot(ctx context.Context, user, name string) (*guestpb.DiffSnapshotResponse, error) {
	const op = "compare with snapshot"
	e, st, err := m.stack(ctx, op, user)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	since, err := st.Find(name)
	if err != nil {
		return nil, err
	}
	list, more, err := m.layers.Diff(st, since)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the room has changed meanwhile: %w", err)
	}
	if err != nil {
		return nil, layersFault(op, user, err)
	}
	answer := &guestpb.DiffSnapshotResponse{Truncated: more}
	for _, c := range list {
		if c.Folder {
			c.Path += "/"
		}
		answer.Changes = append(answer.Changes, &guestpb.PathChange{Path: []byte(c.Path), Kind: guestpb.PathChange_Kind(c.Kind)})
	}
	return answer, nil
}

// beforeRestore begins the names of snapshots that Restore makes.
const beforeRestore = "before-restore"

// RestoreSnapshot makes a room's root what it was, and returns the snapshot of what it is now, or nil if
// there is such a snapshot already.
func (m *Manager) RestoreSnapshot(ctx context.Context, user, name string, stop bool) (*guestpb.Snapshot, error) {
	const op = "restore snapshot"
	e, st, err := m.stack(ctx, op, user)
	if err != nil {
		return nil, err
	}
	defer e.unlock()
	to, err := st.Find(name)
	if err != nil {
		return nil, err
	}
	changed, err := m.layers.Changed(st)
	if err != nil {
		return nil, layersFault(op, user, err)
	}
	if changed {
		err = m.freeze(ctx, op, e, st, stop)
	} else {
		err = e.room.Load().end(ctx, op, stop)
	}
	if err != nil {
		return nil, err
	}
	var before *guestpb.Snapshot
	if !st.Named() {
		before = describeSnapshot(st, st.Add(st.Automatic(beforeRestore, time.Now()), true, time.Now()), false)
	}
	st.Restore(to)
	if err := m.layers.Write(user, st); err != nil {
		return nil, layersFault(op, user, err)
	}
	m.tidyLayers(user)
	return before, nil
}

// DeleteSnapshot deletes a snapshot, while the room may run.
func (m *Manager) DeleteSnapshot(ctx context.Context, user, name string) error {
	const op = "delete snapshot"
	e, st, err := m.stack(ctx, op, user)
	if err != nil {
		return err
	}
	defer e.unlock()
	if err := st.Delete(name); err != nil {
		return err
	}
	if err := m.layers.Write(user, st); err != nil {
		return layersFault(op, user, err)
	}
	m.tidyLayers(user)
	return nil
}

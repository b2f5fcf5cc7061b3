package hosttest

import (
	"context"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

var _ engine.Snapshots = (*Guest)(nil)

func (g *Guest) snapshot(user config.LinuxUser, name config.SnapshotName) int {
	return slices.IndexFunc(g.snapshots[user], func(s engine.Snapshot) bool { return s.Name == string(name) })
}

// CreateSnapshot implements engine.Snapshots. Rooms of this guest have no files.
func (g *Guest) CreateSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, _ bool) (s engine.Snapshot, err error) {
	err = g.ask(ctx, "snapshot", string(user), func() error {
		if g.snapshot(user, name) >= 0 {
			return fault.Newf(fault.Rejected, "make snapshot", string(name), "there is one").Advise("Choose another name.")
		}
		s = engine.Snapshot{Name: string(name), Current: true}
		if g.snapshots == nil {
			g.snapshots = map[config.LinuxUser][]engine.Snapshot{}
		}
		g.snapshots[user] = append(g.snapshots[user], s)
		return nil
	})
	return s, err
}

// AutoSnapshot implements engine.Snapshots: nothing changes.
func (g *Guest) AutoSnapshot(context.Context, config.LinuxUser, config.SnapshotName) (s engine.Snapshot, made bool, err error) {
	return s, false, nil
}

// ListSnapshots implements engine.Snapshots.
func (g *Guest) ListSnapshots(ctx context.Context, user config.LinuxUser) (list []engine.Snapshot, err error) {
	err = g.ask(ctx, "list snapshots of", string(user), func() error {
		list = slices.Clone(g.snapshots[user])
		return nil
	})
	return list, err
}

// DiffSnapshot implements engine.Snapshots with a change that is none.
func (g *Guest) DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) (list []engine.PathChange, more bool, err error) {
	err = g.find(ctx, "compare", user, name, func(int) {})
	return []engine.PathChange{{Path: "/opt/tool/", Kind: engine.PathAdded}, {Path: "/etc/a\nb", Kind: engine.PathChanged}}, false, err
}

// RestoreSnapshot implements engine.Snapshots.
func (g *Guest) RestoreSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, _ bool) (before *engine.Snapshot, err error) {
	return nil, g.find(ctx, "restore", user, name, func(int) {})
}

// DeleteSnapshot implements engine.Snapshots.
func (g *Guest) DeleteSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) error {
	return g.find(ctx, "delete snapshot of", user, name, func(n int) { g.snapshots[user] = slices.Delete(g.snapshots[user], n, n+1) })
}

func (g *Guest) find(ctx context.Context, what string, user config.LinuxUser, name config.SnapshotName, do func(n int)) error {
	return g.ask(ctx, what, string(user), func() error {
		n := g.snapshot(user, name)
		if n < 0 {
			return fault.Newf(fault.NotFound, "find snapshot", string(name), "there is none").Advise("List them.")
		}
		do(n)
		return nil
	})
}

// ForkRoom implements engine.Snapshots.
func (g *Guest) ForkRoom(ctx context.Context, user, to config.LinuxUser, _ uint32, _ bool) error {
	return g.ask(ctx, "fork "+string(user)+" to", string(to), func() error {
		if _, has := g.backend.disk[to]; has {
			return fault.Newf(fault.Rejected, "fork room", string(to), "it has one").Advise("Choose another name.")
		}
		g.backend.disk[to] = g.backend.disk[user]
		return nil
	})
}

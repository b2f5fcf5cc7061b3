package guest

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/printable"
)

var _ engine.Snapshots = (*Client)(nil)

// snapshotTimeout bounds what reads or writes all that a room has changed.
const snapshotTimeout = 5 * time.Minute

// CreateSnapshot implements engine.Snapshots.
func (c *Client) CreateSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, stop bool) (engine.Snapshot, error) {
	s, _, err := c.snapshot(ctx, &guestpb.CreateSnapshotRequest{User: string(user), Name: string(name), Stop: stop})
	return s, err
}

// AutoSnapshot implements engine.Snapshots.
func (c *Client) AutoSnapshot(ctx context.Context, user config.LinuxUser, prefix config.SnapshotName) (s engine.Snapshot, made bool, err error) {
	return c.snapshot(ctx, &guestpb.CreateSnapshotRequest{User: string(user), Name: string(prefix), Automatic: true})
}

func (c *Client) snapshot(ctx context.Context, r *guestpb.CreateSnapshotRequest) (s engine.Snapshot, made bool, err error) {
	a, err := callWithin(ctx, c, snapshotTimeout, "make snapshot", r.Name, c.snapshots.Create, r)
	if err != nil || a.Snapshot == nil {
		return engine.Snapshot{}, false, err
	}
	return snapshotOf(a.Snapshot), true, nil
}

// ListSnapshots implements engine.Snapshots.
func (c *Client) ListSnapshots(ctx context.Context, user config.LinuxUser) (list []engine.Snapshot, err error) {
	a, err := call(ctx, c, "list snapshots", string(user), c.snapshots.List, &guestpb.ListSnapshotsRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	for _, s := range a.Snapshots[:min(len(a.Snapshots), engine.MaxSnapshots)] {
		list = append(list, snapshotOf(s))
	}
	return list, nil
}

func snapshotOf(s *guestpb.Snapshot) engine.Snapshot {
	return engine.Snapshot{
		Name: printable.Clip(s.GetName()), Made: time.Unix(0, s.GetMadeUnixNano()), Automatic: s.GetAutomatic(), Bytes: s.GetBytes(), Current: s.GetCurrent(),
	}
}

// DiffSnapshot implements engine.Snapshots.
func (c *Client) DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) (list []engine.PathChange, more bool, err error) {
	a, err := callWithin(ctx, c, snapshotTimeout, "compare with snapshot", string(name), c.snapshots.Diff, &guestpb.DiffSnapshotRequest{User: string(user), Name: string(name)})
	if err != nil {
		return nil, false, err
	}
	kinds := map[guestpb.PathChange_Kind]engine.ChangeKind{guestpb.PathChange_ADDED: engine.PathAdded, guestpb.PathChange_CHANGED: engine.PathChanged, guestpb.PathChange_DELETED: engine.PathDeleted}
	n := min(len(a.Changes), engine.MaxPathChanges)
	for _, change := range a.Changes[:n] {
		list = append(list, engine.PathChange{Path: clipPath(change.GetPath()), Kind: kinds[change.GetKind()]})
	}
	return list, a.Truncated || n < len(a.Changes), nil
}

// RestoreSnapshot implements engine.Snapshots.
func (c *Client) RestoreSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, stop bool) (before *engine.Snapshot, err error) {
	a, err := callWithin(ctx, c, snapshotTimeout, "restore snapshot", string(name), c.snapshots.Restore, &guestpb.RestoreSnapshotRequest{User: string(user), Name: string(name), Stop: stop})
	if err != nil || a.Before == nil {
		return nil, err
	}
	s := snapshotOf(a.Before)
	return &s, nil
}

// DeleteSnapshot implements engine.Snapshots.
func (c *Client) DeleteSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) error {
	_, err := callWithin(ctx, c, roomTimeout, "delete snapshot", string(name), c.snapshots.Delete, &guestpb.DeleteSnapshotRequest{User: string(user), Name: string(name)})
	return err
}

// ForkRoom implements engine.Snapshots.
func (c *Client) ForkRoom(ctx context.Context, user, to config.LinuxUser, uid uint32, stop bool) error {
	_, err := callWithin(ctx, c, snapshotTimeout, "fork room", string(user), c.snapshots.Fork, &guestpb.ForkRoomRequest{User: string(user), To: string(to), ToUid: uid, Stop: stop})
	return err
}

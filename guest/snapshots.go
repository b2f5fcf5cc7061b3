package guest

import (
	"context"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

var _ engine.Snapshots = (*Client)(nil)

// snapshotTimeout bounds what reads or writes all that a room has changed.
const snapshotTimeout = 5 * time.Minute

// ChangeSnapshot implements engine.Snapshots.
func (c *Client) ChangeSnapshot(ctx context.Context, user config.LinuxUser, action engine.SnapshotAction, name config.SnapshotName, stop bool) (made string, err error) {
	r := &guestpb.ChangeSnapshotRequest{User: string(user), Action: string(action), Name: string(name), Stop: stop}
	a, err := c.snapshots.Change(within(ctx, snapshotTimeout), r)
	return printable.Clip(a.GetSnapshot()), err
}

// ListSnapshots implements engine.Snapshots.
func (c *Client) ListSnapshots(ctx context.Context, user config.LinuxUser) (list []engine.Snapshot, err error) {
	a, err := c.snapshots.List(ctx, &guestpb.ListSnapshotsRequest{User: string(user)})
	for _, s := range a.GetSnapshots()[:min(len(a.GetSnapshots()), engine.MaxSnapshots)] {
		list = append(list, engine.Snapshot{Name: printable.Clip(s.GetName()), Made: time.Unix(0, s.GetMadeUnixNano())})
	}
	return list, err
}

// DiffSnapshot implements engine.Snapshots.
func (c *Client) DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) (list []string, err error) {
	a, err := c.snapshots.Diff(within(ctx, snapshotTimeout), &guestpb.DiffSnapshotRequest{User: string(user), Name: string(name)})
	for _, change := range a.GetChanges()[:min(len(a.GetChanges()), engine.MaxPathChanges)] {
		list = append(list, clipPath(change))
	}
	return list, err
}

// ForkRoom implements engine.Snapshots.
func (c *Client) ForkRoom(ctx context.Context, user, to config.LinuxUser, uid uint32, stop bool) error {
	_, err := c.snapshots.Fork(within(ctx, snapshotTimeout), &guestpb.ForkRoomRequest{User: string(user), To: string(to), ToUid: uid, Stop: stop})
	return err
}

// ExportRoom implements engine.Snapshots.
func (c *Client) ExportRoom(ctx context.Context, user config.LinuxUser, to io.Writer) error {
	return c.help(ctx, "export room", string(user), nil, to, "export-layers", string(user))
}

// ImportRoom implements engine.Snapshots.
func (c *Client) ImportRoom(ctx context.Context, r engine.RoomConfig, from io.Reader) error {
	const op = "import room"
	room, err := protojson.Marshal(roomProto(r))
	if err != nil {
		return fault.New(fault.InvalidArgs, op, string(r.User), err)
	}
	in, archive := io.Pipe() // nothing may read the archive when this has returned
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(archive, from)
		_ = archive.CloseWithError(err)
		read <- err
	}()
	err = c.help(ctx, op, string(r.User), in, nil, "import-layers", c.base, string(room))
	_ = in.Close()
	if late := <-read; err == nil && late != nil {
		err = fault.New(fault.Rejected, op, string(r.User), late)
	}
	return err
}

// Freeze writes everything to the data disk and makes writers wait until Thaw, or until the time is
// over. Meanwhile the image file is what a mount expects.
func (c *Client) Freeze(ctx context.Context, within time.Duration) error {
	_, err := c.rpc.Freeze(ctx, &guestpb.FreezeRequest{WithinNanos: int64(within)})
	return err
}

// Thaw ends a Freeze. It fails if the disk was not frozen all the time.
func (c *Client) Thaw(ctx context.Context) error {
	_, err := c.rpc.Freeze(ctx, &guestpb.FreezeRequest{})
	return err
}

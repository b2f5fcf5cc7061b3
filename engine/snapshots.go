package engine

import (
	"context"
	"io"
	"time"

	"osaurus-sandbox/config"
)

// Snapshots is implemented by engines that can freeze what their rooms have changed outside of the
// homes. The rooms have been made by EnsureRoom. Calls fail with NotFound if there is no such room or
// snapshot. With stop they end what runs in the room; otherwise they fail with Rejected if something does
// that would have to end. Answers come from the guest and must not be trusted.
type Snapshots interface {
	// ChangeSnapshot creates, restores or deletes a snapshot. It returns the name of the snapshot that it made
	// of the room as it was, or "" if there was one already.
	//
	// Restoring makes an automatic snapshot, whose name begins with AutomaticSnapshot. These get the time in
	// their names, only the last few are kept, and none is made if nothing has changed since a snapshot.
	// To create another one fails with Rejected if its name is taken, or if there are too many.
	ChangeSnapshot(ctx context.Context, user config.LinuxUser, action SnapshotAction, name config.SnapshotName, stop bool) (made string, err error)
	// ListSnapshots lists the snapshots, the oldest first.
	ListSnapshots(ctx context.Context, user config.LinuxUser) ([]Snapshot, error)
	// DiffSnapshot lists the first MaxPathChanges changes since a snapshot, by path: "+ " (added), "~ "
	// (changed) or "- " (deleted) and an absolute path, of a folder with a slash at the end. An added or
	// deleted folder stands for everything in it.
	DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) ([]string, error)
	// ForkRoom gives a new user, who has no room yet, the root of another one as it is now. Neither can
	// change the other's. After an error, the new user's room must be removed.
	ForkRoom(ctx context.Context, user, to config.LinuxUser, uid uint32, stop bool) error
	// ExportRoom writes the root of a room, which may run, as an archive for ImportRoom. Each file is as it
	// was when it was read.
	ExportRoom(ctx context.Context, user config.LinuxUser, to io.Writer) error
	// ImportRoom gives a new user, who has no room yet, the root of an archive, whose base must have been the
	// same. Of the room, only user, uid and limits count. Nothing in the archive is trusted: it fails with Rejected
	// if it is damaged or beyond the limits. After an error, the new user's room must be removed.
	ImportRoom(ctx context.Context, room RoomConfig, from io.Reader) error
}

// SnapshotAction is what ChangeSnapshot does.
type SnapshotAction string

const (
	CreateSnapshot  SnapshotAction = "create"
	RestoreSnapshot SnapshotAction = "restore"
	DeleteSnapshot  SnapshotAction = "delete"
)

// AutomaticSnapshot begins the names of automatic snapshots.
const AutomaticSnapshot = "before-"

// Snapshot describes a snapshot of a room.
type Snapshot struct {
	Name string
	Made time.Time
}

const (
	// MaxSnapshots bounds a list of snapshots. A room has fewer.
	MaxSnapshots = 64
	// MaxPathChanges bounds a list of changes, which is one message.
	MaxPathChanges = 2000
)

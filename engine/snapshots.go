package engine

import (
	"context"
	"time"

	"osaurus-sandbox/config"
)

// Snapshots is implemented by engines that can freeze what their rooms have changed outside of the
// homes. The rooms have been made by EnsureRoom. Calls fail with NotFound if there is no such room or
// snapshot. With stop they end what runs in the room; otherwise they fail with Rejected if something does
// that would have to end.
type Snapshots interface {
	// CreateSnapshot makes a snapshot. It fails with Rejected if there is one of that name, or too many.
	CreateSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, stop bool) (Snapshot, error)
	// AutoSnapshot makes a snapshot whose name begins with prefix, unless nothing has changed since the
	// last one. Only the last few of them are kept.
	AutoSnapshot(ctx context.Context, user config.LinuxUser, prefix config.SnapshotName) (s Snapshot, made bool, err error)
	// ListSnapshots lists the snapshots, the oldest first.
	ListSnapshots(ctx context.Context, user config.LinuxUser) ([]Snapshot, error)
	// DiffSnapshot lists what has changed since a snapshot, by path, and reports whether there is more.
	DiffSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) (list []PathChange, more bool, err error)
	// RestoreSnapshot makes the room's root what it was. What it is now becomes the automatic snapshot
	// before, unless there is such a snapshot.
	RestoreSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName, stop bool) (before *Snapshot, err error)
	DeleteSnapshot(ctx context.Context, user config.LinuxUser, name config.SnapshotName) error
	// ForkRoom gives a new user, who has no room yet, the root of another one as it is now. Neither can
	// change the other's.
	ForkRoom(ctx context.Context, user, to config.LinuxUser, uid uint32, stop bool) error
}

// Snapshot describes a snapshot of a room. It comes from the guest and must not be trusted.
type Snapshot struct {
	Name      string
	Made      time.Time
	Automatic bool
	Bytes     uint64 // of what had changed since the snapshot before
	Current   bool   // nothing has changed since
}

// PathChange is a path of a room that differs from a snapshot. It comes from the guest and must not be
// trusted.
type PathChange struct {
	Path string // absolute; of a folder with a slash at the end, which stands for everything in it
	Kind ChangeKind
}

// ChangeKind is the kind of a PathChange.
type ChangeKind string

const (
	PathAdded   ChangeKind = "added"
	PathChanged ChangeKind = "changed"
	PathDeleted ChangeKind = "deleted"
)

const (
	// MaxSnapshots bounds a list of snapshots. A room has fewer.
	MaxSnapshots = 64
	// MaxPathChanges bounds a list of changes, which is one message.
	MaxPathChanges = 2000
)

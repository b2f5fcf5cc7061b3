package guest

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// ChangeKind is what a room has put in the place of a file.
type ChangeKind string

const (
	ChangedFile   ChangeKind = "file"
	ChangedFolder ChangeKind = "folder" // made, or with other attributes, or only with changes in it
	ChangedLink   ChangeKind = "link"
	ChangedOther  ChangeKind = "other" // a pipe, socket or device
	Removed       ChangeKind = "removed"
	// Replaced is a folder that hides everything in the one of the mounted folder.
	Replaced ChangeKind = "replaced"
)

// MountChange is a difference between a reviewed mount and the folder below it. It may have been
// undone: the file may be equal again.
type MountChange struct {
	Path     string // relative to the mount, clean, of any bytes but NUL
	Kind     ChangeKind
	Mode     uint32 // permissions
	Size     uint64
	Modified time.Time
	Made     time.Time // when the room first changed it: what is older on the host is what it changed
	Target   string    // of a link
	// Changed is when it was last changed in any way. An entry whose Changed and Inode are as they were is the same.
	Changed time.Time
	Inode   uint64
}

// MountChanges returns what a room has changed in a reviewed mount, which may have ended. Each folder
// comes before what is in it. A room may change files meanwhile. With more than 100,000 changes, the
// last error is Rejected.
func (c *Client) MountChanges(ctx context.Context, user config.LinuxUser, name config.MountName) iter.Seq2[MountChange, error] {
	const op = "list changes"
	return func(yield func(MountChange, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.mounts.Changes(ctx, &guestpb.ChangesRequest{User: string(user), Name: string(name)})
		if err != nil {
			yield(MountChange{}, c.fault(ctx, op, string(name), err))
			return
		}
		defer stream.Close()
		for left := protocol.MaxChanges; stream.Receive(); {
			for _, m := range stream.Msg().Changes {
				if left--; left < 0 {
					yield(MountChange{}, fault.Newf(fault.Rejected, op, string(name), "there are more than %d changes", protocol.MaxChanges).
						Advise("Have the agent remove what it built there, or build outside of the mount."))
					return
				}
				if change, err := parseChange(m); !yield(change, err) || err != nil {
					return
				}
			}
		}
		if err := stream.Err(); err != nil {
			yield(MountChange{}, c.fault(ctx, op, string(name), err))
		}
	}
}

// parseChange checks a change, which may say anything.
func parseChange(m *guestpb.Change) (MountChange, error) {
	if err := protocol.CheckChangePath(m.GetPath()); err != nil {
		return MountChange{}, fault.New(fault.Rejected, "list changes", "", err)
	}
	kinds := map[guestpb.Change_Kind]ChangeKind{
		guestpb.Change_KIND_FILE: ChangedFile, guestpb.Change_KIND_FOLDER: ChangedFolder, guestpb.Change_KIND_LINK: ChangedLink,
		guestpb.Change_KIND_REMOVED: Removed, guestpb.Change_KIND_REPLACED: Replaced,
	}
	change := MountChange{
		Path: string(m.Path), Kind: kinds[m.Kind], Mode: m.Mode & 0o7777, Size: m.Size,
		Modified: time.Unix(0, m.ModifiedUnixNano), Made: time.Unix(0, m.MadeUnixNano),
		Changed: time.Unix(0, m.ChangedUnixNano), Inode: m.Inode,
	}
	switch change.Kind {
	case "":
		change.Kind = ChangedOther
	case ChangedLink:
		change.Target = clipPath(m.Target)
	}
	return change, nil
}

// ReadMountChange returns the content of a changed file. The caller must close it.
func (c *Client) ReadMountChange(ctx context.Context, user config.LinuxUser, name config.MountName, path string) (io.ReadCloser, error) {
	failed := func(err error) error { return c.fault(ctx, "read changed file", path, err) }
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.mounts.ReadChange(ctx, &guestpb.ReadChangeRequest{User: string(user), Name: string(name), Path: []byte(path)})
	if err == nil && !stream.Receive() { // the first message comes when the file is open
		err = errors.Join(stream.Err(), stream.Close())
	}
	if err != nil {
		cancel()
		return nil, failed(err)
	}
	r, w := io.Pipe()
	go func() {
		defer cancel()
		for err == nil && stream.Receive() {
			_, err = w.Write(stream.Msg().Data)
		}
		if err = stream.Err(); err != nil {
			err = failed(err)
		}
		_ = w.CloseWithError(err)
		_ = stream.Close()
	}()
	return r, nil
}

// ForgetMount discards what a room has changed in a reviewed mount, which must have ended.
func (c *Client) ForgetMount(ctx context.Context, user config.LinuxUser, name config.MountName) error {
	_, err := callWithin(ctx, c, mountTimeout, "forget changes", string(name), c.mounts.Unmount, &guestpb.UnmountRequest{User: string(user), Name: string(name), Forget: true})
	return err
}

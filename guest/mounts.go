package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

// mountTimeout bounds mounting and unmounting. The host serves the folder meanwhile, from a disk
// that may be slow.
const mountTimeout = 30 * time.Second

// MountsDir is where folders are mounted in rooms, unless a path is given.
const MountsDir = protocol.MountsDir

// MountMode says what a room can do with a mounted folder.
type MountMode string

const (
	MountRead  MountMode = "read"
	MountWrite MountMode = "write"
	// MountReview lets the room change a copy of the files: see MountChanges.
	MountReview MountMode = "review"
)

// RoomMount describes the mount of a folder in a room.
type RoomMount struct {
	Name config.MountName // in the room
	// Path is below MountsDir or the agent's home. The default is the folder Name of MountsDir.
	Path string
	Mode MountMode
}

// Mounted is a folder that is mounted in a room.
type Mounted struct {
	client *Client
	user   config.LinuxUser
	mount  RoomMount
	cancel context.CancelFunc
	done   chan struct{}
}

// Mount mounts a folder in a room. It ends a mount of the room with the same name first. Serve
// answers the FUSE requests of the mount until the stream ends, which is when the mount, the room or
// the guest ends: see fs.Server. The caller must call Unmount or Close.
func (c *Client) Mount(ctx context.Context, user config.LinuxUser, m RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (*Mounted, error) {
	m.Path = cmp.Or(m.Path, MountsDir+"/"+string(m.Name))
	id := rand.Text()
	conn, err := c.conns.enter(ctx, protocol.DataHeader{Key: c.key, User: protocol.MountUser + id})
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mounted := &Mounted{client: c, user: user, mount: m, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(mounted.done)
		defer cancel()
		defer conn.Close()
		_ = serve(serving, conn) // the mount ends, whatever it was
	}()
	_, err = c.mounts.Mount(within(ctx, mountTimeout), &guestpb.MountRequest{
		User: string(user), Name: string(m.Name), Path: []byte(m.Path), Write: m.Mode == MountWrite, Review: m.Mode == MountReview, Connection: id,
	})
	if err != nil {
		mounted.Close()
		return nil, err
	}
	return mounted, nil
}

// Done is closed when the mount has ended.
func (m *Mounted) Done() <-chan struct{} { return m.done }

// Close ends the mount, and returns when serve has returned. Programs that use it get errors.
func (m *Mounted) Close() {
	m.cancel()
	<-m.done
}

// maxNamed bounds the programs that an error names.
const maxNamed = 20

// Unmount ends the mount. Without force it fails with Rejected if programs of the room have something in
// it open.
func (m *Mounted) Unmount(ctx context.Context, force bool) error {
	name := string(m.mount.Name)
	if notify.Closed(m.done) {
		return nil
	}
	if !force {
		list, _, err := m.client.RoomProcesses(ctx, m.user, m.mount.Path)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		var users []string
		for _, p := range list {
			if len(p.Open) > 0 && len(users) < maxNamed {
				users = append(users, fmt.Sprintf("%s (pid %d)", p.Command, p.PID))
			}
		}
		if len(users) > 0 {
			return fault.Newf(fault.Rejected, "unmount", name, "in use by %s", strings.Join(users, ", ")).
				Advise("Wait for them, or unmount it with force: they get errors then.")
		}
	}
	_, err := m.client.mounts.Unmount(within(ctx, mountTimeout), &guestpb.UnmountRequest{User: string(m.user), Name: name})
	if err == nil {
		m.Close()
	}
	return err
}

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
	return func(yield func(MountChange, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.mounts.Changes(ctx, &guestpb.ChangesRequest{User: string(user), Name: string(name)})
		if err != nil {
			yield(MountChange{}, c.fault(ctx, err))
			return
		}
		defer stream.Close()
		for left := protocol.MaxChanges; stream.Receive(); {
			for _, m := range stream.Msg().Changes {
				if left--; left < 0 {
					yield(MountChange{}, fault.Newf(fault.Rejected, "list changes", string(name), "there are more than %d changes", protocol.MaxChanges).
						Advise("Have the agent remove what it built there, or build outside of the mount."))
					return
				}
				if change, err := parseChange(m); !yield(change, err) || err != nil {
					return
				}
			}
		}
		if err := stream.Err(); err != nil {
			yield(MountChange{}, c.fault(ctx, err))
		}
	}
}

// parseChange checks a change, which may say anything.
func parseChange(m *guestpb.Change) (MountChange, error) {
	if err := protocol.CheckChangePath(m.GetPath()); err != nil {
		return MountChange{}, fault.New(fault.Rejected, "list changes", "", err)
	}
	kinds := map[uint32]ChangeKind{0o100000: ChangedFile, 0o040000: ChangedFolder, 0o120000: ChangedLink, 0o020000: Removed}
	change := MountChange{
		Path: string(m.Path), Kind: cmp.Or(kinds[m.Mode&0o170000], ChangedOther), Mode: m.Mode & 0o7777, Size: m.Size, Target: clipPath(m.Target),
		Modified: time.Unix(0, m.ModifiedUnixNano), Made: time.Unix(0, m.MadeUnixNano), Changed: time.Unix(0, m.ChangedUnixNano), Inode: m.Inode,
	}
	if change.Kind == ChangedFolder && m.Opaque {
		change.Kind = Replaced
	}
	return change, nil
}

// ReadMountChange returns the content of a changed file. The caller must close it.
func (c *Client) ReadMountChange(ctx context.Context, user config.LinuxUser, name config.MountName, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.mounts.ReadChange(ctx, &guestpb.ReadChangeRequest{User: string(user), Name: string(name), Path: []byte(path)})
	if err == nil && !stream.Receive() { // the first message comes when the file is open
		err = errors.Join(stream.Err(), stream.Close())
	}
	if err != nil {
		cancel()
		return nil, c.fault(ctx, err)
	}
	r, w := io.Pipe()
	go func() {
		defer cancel()
		for err == nil && stream.Receive() {
			_, err = w.Write(stream.Msg().Data)
		}
		if err = stream.Err(); err != nil {
			err = c.fault(ctx, err)
		}
		_ = w.CloseWithError(err)
		_ = stream.Close()
	}()
	return r, nil
}

// ForgetMount discards what a room has changed in a reviewed mount, which must have ended.
func (c *Client) ForgetMount(ctx context.Context, user config.LinuxUser, name config.MountName) error {
	_, err := c.mounts.Unmount(within(ctx, mountTimeout), &guestpb.UnmountRequest{User: string(user), Name: string(name), Forget: true})
	return err
}

package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
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
	err    error // after done
}

// Mount mounts a folder in a room. It ends a mount of the room with the same name first. Serve
// answers the FUSE requests of the mount until the stream ends, which is when the mount, the room or
// the guest ends: see fs.Server. The caller must call Unmount or Close.
func (c *Client) Mount(ctx context.Context, user config.LinuxUser, m RoomMount, serve func(context.Context, io.ReadWriteCloser) error) (*Mounted, error) {
	const op = "mount"
	m.Path = cmp.Or(m.Path, MountsDir+"/"+string(m.Name))
	id := rand.Text()
	conn, err := c.conns.enter(ctx, protocol.DataHeader{Key: c.key, User: protocol.MountUser + id})
	if err != nil {
		return nil, c.fault(ctx, op, string(m.Name), err)
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mounted := &Mounted{client: c, user: user, mount: m, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(mounted.done)
		defer cancel()
		defer conn.Close()
		mounted.err = serve(serving, conn)
	}()
	_, err = callWithin(ctx, c, mountTimeout, op, string(m.Name), c.mounts.Mount, &guestpb.MountRequest{
		User: string(user), Name: string(m.Name), Path: []byte(m.Path), Write: m.Mode == MountWrite, Review: m.Mode == MountReview, Connection: id,
	})
	if err != nil {
		mounted.Close()
		return nil, err
	}
	return mounted, nil
}

// Path returns where the folder is mounted in the room.
func (m *Mounted) Path() string { return m.mount.Path }

// Done is closed when the mount has ended.
func (m *Mounted) Done() <-chan struct{} { return m.done }

// Err returns what serve returned. Call it after Done.
func (m *Mounted) Err() error { return m.err }

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
	const op = "unmount"
	name := string(m.mount.Name)
	select {
	case <-m.done:
		return nil
	default:
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
			return fault.Newf(fault.Rejected, op, name, "in use by %s", strings.Join(users, ", ")).
				Advise("Wait for them, or unmount it with force: they get errors then.")
		}
	}
	_, err := callWithin(ctx, m.client, mountTimeout, op, name, m.client.mounts.Unmount, &guestpb.UnmountRequest{User: string(m.user), Name: name})
	if err == nil {
		m.Close()
	}
	return err
}

//go:build linux

// Package mount mounts folders of the host in rooms: it carries FUSE requests between the kernel and a connection to the host.
package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
)

const (
	// offerTime is how long a connection waits for the call that names it, and a call for its
	// connection. The host makes both at once.
	offerTime = 10 * time.Second
	// maxOffers bounds the connections that wait.
	maxOffers = 64
)

// Manager mounts folders of the host in rooms. Only the host can reach it.
type Manager struct {
	rooms *room.Manager
	turns queue.Queues[key]

	mu     sync.Mutex
	offers map[string]chan net.Conn // by the connection's id
	mounts map[key]*mount
}

// key identifies a mount.
type key struct{ user, name string }

// NewManager returns a manager without mounts.
func NewManager(rooms *room.Manager) *Manager {
	return &Manager{rooms: rooms, offers: map[string]chan net.Conn{}, mounts: map[key]*mount{}}
}

// offer returns the channel on which a connection waits, or nil if too many do.
func (m *Manager) offer(id string) chan net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.offers[id]
	if c == nil && len(m.offers) < maxOffers {
		c = make(chan net.Conn)
		m.offers[id] = c
		time.AfterFunc(offerTime, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.offers, id)
		})
	}
	return c
}

// Offer keeps a connection until Mount names its id. It closes one that nobody wants.
func (m *Manager) Offer(id string, conn net.Conn) {
	select {
	case m.offer(id) <- conn:
	case <-time.After(offerTime):
		_ = conn.Close()
	}
}

// Mount mounts what the host serves on a connection in a room. It ends a mount with the same name
// first.
func (m *Manager) Mount(ctx context.Context, r *room.Room, q *guestpb.MountRequest) error {
	const op = "mount"
	k := key{q.User, q.Name}
	give, err := m.turns.Take(ctx, k, nil)
	if err != nil {
		return err
	}
	defer give()
	if old := m.get(k); old != nil {
		old.end()
	}
	n := &mount{manager: m, key: k, room: r, path: string(q.Path), ended: make(chan struct{})}
	select {
	case n.conn = <-m.offer(string(q.Connection)):
	case <-time.After(offerTime):
		return fault.Newf(fault.Timeout, op, q.Name, "the host's connection did not come").Advise("Try again.")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.add(n); err != nil {
		_ = n.conn.Close()
		return err
	}
	stop := context.AfterFunc(ctx, n.end) // the host does not answer
	err = n.mount(q.Mode)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		n.end()
		if _, ok := err.(*fault.Error); ok {
			return err
		}
		return fault.New(fault.Execution, op, q.Name, fmt.Errorf("at %s: %w", q.Path, err)).
			Advise("Mount it elsewhere if the agent has put something in the place of that folder.")
	}
	return nil
}

// add records a mount, unless the room has too many or its path is that of another.
func (m *Manager) add(n *mount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	for k, other := range m.mounts {
		if k.user != n.key.user {
			continue
		}
		if count++; count >= protocol.MaxMounts {
			return fault.Newf(fault.Rejected, "mount", n.key.name, "the room has %d mounts", count).Advise("Unmount one first.")
		}
		if within(n.path, other.path) || within(other.path, n.path) {
			return fault.Newf(fault.Rejected, "mount", n.key.name, "%s is mounted at %s", k.name, other.path).Advise("Mount it elsewhere.")
		}
	}
	m.mounts[n.key] = n
	return nil
}

func within(path, folder string) bool { return strings.HasPrefix(path+"/", folder+"/") }

func (m *Manager) get(k key) *mount {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mounts[k]
}

// Unmount ends a mount. Without force it keeps one that programs use, and returns them.
func (m *Manager) Unmount(ctx context.Context, user, name string, force bool) ([]*guestpb.MountUser, error) {
	k := key{user, name}
	give, err := m.turns.Take(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	n := m.get(k)
	if n == nil {
		return nil, fault.Newf(fault.NotFound, "unmount", name, "it is not mounted").Advise("See which mounts there are.")
	}
	if !force {
		users, err := n.room.Users(n.tree, protocol.MaxMountUsers)
		if err != nil || len(users) > 0 {
			return users, err
		}
	}
	n.end()
	return nil, nil
}

// Leave ends all mounts of a user.
func (m *Manager) Leave(user string) {
	m.mu.Lock()
	var list []*mount
	for k, n := range m.mounts {
		if k.user == user {
			list = append(list, n)
		}
	}
	m.mu.Unlock()
	for _, n := range list {
		n.end()
	}
}

// Forget discards the changes of a mount that has ended.
func (m *Manager) Forget(ctx context.Context, user, name string) error {
	k := key{user, name}
	give, err := m.turns.Take(ctx, k, nil)
	if err != nil {
		return err
	}
	defer give()
	if m.get(k) != nil {
		return fault.Newf(fault.Rejected, "forget changes", name, "it is mounted").Advise("Unmount it first.")
	}
	if err := m.rooms.DiscardReview(user, name); err != nil {
		return fault.New(fault.Execution, "forget changes", name, err)
	}
	return nil
}

// mount is one mounted folder.
type mount struct {
	manager *Manager
	key     key
	room    *room.Room
	path    string
	conn    net.Conn
	fuse    *os.File // of /dev/fuse
	below   string   // in review mode, where FUSE is mounted in the guest
	tree    *os.File // what is mounted in the room
	once    sync.Once
	ended   chan struct{}
	closing sync.Mutex // guards the fields above until they are set
	over    bool
}

// file systems of mounts have no set-user-ID programs and devices.
const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// mount makes the file systems, serves them and mounts them in the room.
func (n *mount) mount(mode guestpb.MountRequest_Mode) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	flags := attributes
	if mode != guestpb.MountRequest_MODE_WRITE {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	tree, err := room.NewFS("fuse", flags, "source="+n.key.name, fmt.Sprintf("fd=%d", fd), "rootmode=40000", "user_id=0", "group_id=0",
		"allow_other", "default_permissions")
	// Reads wait without a thread, and so can be interrupted. Before it was mounted it was at fault,
	// which Go's poller would remember.
	fuse := os.NewFile(uintptr(fd), "/dev/fuse")
	if err != nil || !n.keep(func() { n.fuse = fuse }) {
		_ = fuse.Close()
		return cmp.Or(err, errEnded)
	}
	go n.carry()
	if mode == guestpb.MountRequest_MODE_REVIEW {
		if tree, err = n.review(tree); err != nil {
			return err
		}
	}
	if !n.keep(func() { n.tree = tree }) {
		_ = tree.Close()
		return errEnded
	}
	if err := n.room.Attach(tree, n.path); err != nil {
		return err
	}
	if mode == guestpb.MountRequest_MODE_REVIEW {
		go n.refresh(tree)
	}
	return nil
}

var errEnded = errors.New("the host ended the mount")

// review mounts FUSE outside of the room and returns an overlay of it, whose upper layer is on the
// data disk. Without the options, a renamed folder or a file with another mode would be in the upper
// layer only by name.
func (n *mount) review(tree *os.File) (*os.File, error) {
	defer tree.Close()
	below, err := n.manager.rooms.MountFolder(n.key.user, n.key.name)
	if err != nil {
		return nil, err
	}
	upper, work, err := n.manager.rooms.Review(n.room, n.key.name)
	if err != nil {
		return nil, err
	}
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, below, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mount outside of the room: %w", err)
	}
	if !n.keep(func() { n.below = below }) {
		_ = unix.Unmount(below, unix.MNT_FORCE|unix.MNT_DETACH)
		return nil, errEnded
	}
	return room.NewFS("overlay", attributes, "source="+n.key.name, "lowerdir="+below, "upperdir="+upper, "workdir="+work,
		"redirect_dir=nofollow", "metacopy=off", "index=off", "xino=off")
}

// keep calls set, unless the mount has ended.
func (n *mount) keep(set func()) bool {
	n.closing.Lock()
	defer n.closing.Unlock()
	if !n.over {
		set()
	}
	return !n.over
}

// end ends the mount. Programs that use it get errors.
func (n *mount) end() {
	n.once.Do(func() {
		n.keep(func() { n.over = true })
		if n.tree != nil {
			_ = n.room.Detach(n.tree) // fails if the room has ended
			_ = n.tree.Close()
		}
		if n.below != "" {
			_ = unix.Unmount(n.below, unix.MNT_FORCE|unix.MNT_DETACH)
			_ = os.Remove(n.below)
		}
		if n.fuse != nil {
			_ = n.fuse.Close()
		}
		_ = n.conn.Close()
		n.manager.mu.Lock()
		if n.manager.mounts[n.key] == n {
			delete(n.manager.mounts, n.key)
		}
		n.manager.mu.Unlock()
		close(n.ended)
	})
	<-n.ended
}

//go:build linux

// Package mount mounts folders of the host in rooms: it carries FUSE requests between the kernel and a connection to the host.
package mount

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
)

// offerTime is how long a connection waits for the call that names it, and a call for its connection.
// The host makes both at once.
const offerTime = 10 * time.Second

// Manager mounts folders of the host in rooms. It implements the service Mounts.
type Manager struct {
	rooms  *room.Manager
	turns  queue.Queues[key]
	offers sync.Map // of chan socket by the connection's id

	mu     sync.Mutex
	mounts map[key]*mount
}

// key identifies a mount.
type key struct{ user, name string }

// socket is a vsock connection of the guest's kernel.
type socket interface {
	net.Conn
	syscall.Conn
}

// NewManager returns a manager without mounts.
func NewManager(rooms *room.Manager) *Manager {
	return &Manager{rooms: rooms, mounts: map[key]*mount{}}
}

// offer returns the channel on which a connection waits.
func (m *Manager) offer(id string) chan socket {
	c, had := m.offers.LoadOrStore(id, make(chan socket))
	if !had {
		time.AfterFunc(offerTime, func() { m.offers.Delete(id) })
	}
	return c.(chan socket)
}

// Offer keeps a connection until Mount names its id. It closes one that nobody wants.
func (m *Manager) Offer(id string, conn net.Conn) {
	select {
	case m.offer(id) <- conn.(socket):
	case <-time.After(offerTime):
		_ = conn.Close()
	}
}

// Mount mounts what the host serves on a connection in a room. It ends a mount with the same name
// first.
func (m *Manager) Mount(ctx context.Context, q *guestpb.MountRequest) (*guestpb.MountResponse, error) {
	r, err := m.rooms.Get(ctx, q.User)
	if err == nil {
		err = protocol.CheckMountPath(string(q.Path), r.Home())
	}
	if err != nil {
		return nil, err
	}
	k := key{q.User, q.Name}
	give, err := m.turns.Take(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	return &guestpb.MountResponse{}, m.mount(ctx, k, r, q)
}

func (m *Manager) mount(ctx context.Context, k key, r *room.Room, q *guestpb.MountRequest) error {
	const op = "mount"
	for _, old := range m.of(k) {
		old.end()
	}
	if count := len(m.of(key{user: q.User})); count >= protocol.MaxMounts {
		return fault.Newf(fault.Rejected, op, q.Name, "the room has %d mounts", count).Advise("Unmount one first.")
	}
	n := &mount{manager: m, key: k, room: r, path: string(q.Path), ended: make(chan struct{})}
	select {
	case n.conn = <-m.offer(q.Connection):
	case <-time.After(offerTime):
		return fault.Newf(fault.Timeout, op, q.Name, "the host did not connect").Advise("Try again.")
	case <-ctx.Done():
		return ctx.Err()
	}
	_ = protocol.SetWindow(n.conn, window) // on failure the default stays
	tree, err := n.open(q.Write)
	if err != nil {
		_ = n.conn.Close()
		return fault.New(fault.Execution, op, q.Name, err)
	}
	n.making.Lock()
	go n.serve()
	stop := context.AfterFunc(ctx, n.abort) // the host does not answer
	readAhead(tree)
	err = n.attach(tree, q.Review)
	n.making.Unlock()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		n.end()
		return fault.New(fault.Execution, op, q.Name, fmt.Errorf("at %s: %w", q.Path, err)).
			Advise("Mount it elsewhere if the agent has put something in the place of that folder.")
	}
	return nil
}

// of returns a mount, if there is one, or without a name those of a user.
func (m *Manager) of(k key) (list []*mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, n := range m.mounts {
		if other.user == k.user && (k.name == "" || other.name == k.name) {
			list = append(list, n)
		}
	}
	return list
}

// Unmount ends a mount, or discards the changes of one that has ended.
func (m *Manager) Unmount(ctx context.Context, q *guestpb.UnmountRequest) (*guestpb.UnmountResponse, error) {
	const op = "forget changes"
	k := key{q.User, q.Name}
	give, err := m.turns.Take(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	defer give()
	for _, n := range m.of(k) {
		if q.Forget {
			return nil, fault.Newf(fault.Rejected, op, q.Name, "it is mounted").Advise("Unmount it first.")
		}
		n.end()
	}
	if q.Forget {
		if err := m.rooms.DiscardReviews(q.User, q.Name); err != nil {
			return nil, fault.New(fault.Execution, op, q.Name, err)
		}
	}
	return &guestpb.UnmountResponse{}, nil
}

// Leave ends all mounts of a user.
func (m *Manager) Leave(user string) {
	for _, n := range m.of(key{user: user}) {
		n.end()
	}
}

// mount is one mounted folder.
type mount struct {
	manager *Manager
	key     key
	room    *room.Room
	path    string
	conn    socket
	fuse    *os.File // of /dev/fuse

	making sync.Mutex // held while it is mounted or unmounted
	lower  string     // of a reviewed mount: where FUSE is mounted in the guest
	tree   *os.File   // what is mounted in the room
	ended  chan struct{}
}

// file systems of mounts have no set-user-ID programs and devices.
const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// open makes the FUSE file system.
func (n *mount) open(write bool) (tree *os.File, err error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	flags := attributes
	if !write {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	tree, err = room.NewFS("fuse", flags, "source="+n.key.name, fmt.Sprintf("fd=%d", fd), "rootmode=40000", "user_id=0", "group_id=0",
		"allow_other", "default_permissions")
	// Reads wait in Go's poller, and so can be interrupted. It gets the descriptor only now: one that is not
	// mounted polls as failed, which the poller would remember.
	if n.fuse = os.NewFile(uintptr(fd), "/dev/fuse"); err != nil {
		_ = n.fuse.Close()
		return nil, err
	}
	n.manager.mu.Lock()
	defer n.manager.mu.Unlock()
	n.manager.mounts[n.key] = n
	return tree, nil
}

// readAhead makes the kernel read ahead of programs in messages of 1 MiB, the host's largest, since each costs a round
// trip.
func readAhead(tree *os.File) {
	if info, err := tree.Stat(); err == nil { // the host has agreed to the size of messages then
		dev := info.Sys().(*syscall.Stat_t).Dev
		_ = os.WriteFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev)), []byte("1024"), 0)
	}
}

// attach mounts the file system in the room. For a review, it mounts an overlay of it, whose upper layer
// is on the data disk. Without the options, a renamed folder or a file with another mode would be in the
// upper layer only by name.
func (n *mount) attach(tree *os.File, review bool) (err error) {
	if review {
		defer tree.Close()
		lower, upper, work, err := n.manager.rooms.Review(n.room, n.key.name)
		if err == nil {
			err = unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, lower, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		if err != nil {
			return err
		}
		n.lower = lower
		tree, err = room.NewFS("overlay", attributes, "source="+n.key.name, "lowerdir="+lower, "upperdir="+upper, "workdir="+work,
			"redirect_dir=nofollow", "metacopy=off", "index=off", "xino=off")
		if err != nil {
			return err
		}
	}
	n.tree = tree
	return n.room.Attach(tree, n.path)
}

// serve carries messages until the mount ends, and unmounts it.
func (n *mount) serve() {
	n.carry()
	n.abort()
	n.making.Lock()
	if n.tree != nil {
		_ = n.room.Detach(n.tree) // fails if the room has ended
		_ = n.tree.Close()
	}
	if n.lower != "" {
		_ = unix.Unmount(n.lower, unix.MNT_FORCE|unix.MNT_DETACH)
		_ = os.Remove(n.lower)
	}
	n.manager.mu.Lock()
	delete(n.manager.mounts, n.key)
	n.manager.mu.Unlock()
	close(n.ended)
}

// abort makes everything that waits for the host fail, and the mount end.
func (n *mount) abort() {
	_ = n.fuse.Close()
	_ = n.conn.Close()
}

// end ends the mount. Programs that use it get errors.
func (n *mount) end() {
	n.abort()
	<-n.ended
}

// refreshed is how often a reviewed mount looks for changes by the host: as long as FUSE caches.
const refreshed = time.Second

// refresh makes the overlay forget names. Overlayfs expects that nobody else changes its layers: it would
// keep a file that was replaced on the host as stale, and a new one as missing. A remount drops the names
// that no program has open.
func (n *mount) refresh() {
	if !n.making.TryLock() {
		return
	}
	defer n.making.Unlock()
	if n.lower == "" || n.tree == nil {
		return
	}
	f, err := unix.Fspick(int(n.tree.Fd()), "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err == nil {
		_ = errors.Join(unix.FsconfigReconfigure(f), unix.Close(f))
	}
}

const (
	// maxMessage bounds a FUSE request or reply: 1 MiB of data, and its header.
	maxMessage = 1<<20 + 64<<10
	// window lets the host send a whole reply, and this kernel a whole request.
	window = 2 << 20
)

// carry copies requests and replies until either side or the room ends.
func (n *mount) carry() {
	fuse, err := n.fuse.SyscallConn()
	host, failed := n.conn.SyscallConn()
	if errors.Join(err, failed) != nil {
		return
	}
	done := make(chan struct{}, 2)
	go func() { requests(file{host}, file{fuse}); done <- struct{}{} }()
	go func() { replies(file{fuse}, file{host}); done <- struct{}{} }()
	tick := time.NewTicker(refreshed)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-n.room.Dead():
			return
		case <-tick.C:
			n.refresh()
		}
	}
}

// requests copies the kernel's requests to the host. Each read returns one request.
func requests(to io.Writer, fuse io.Reader) {
	for buf := make([]byte, maxMessage); ; {
		n, err := fuse.Read(buf)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) { // a request that was given up
			continue
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies copies the host's replies to the kernel, which takes one at a time.
func replies(fuse io.Writer, conn io.Reader) {
	for from := bufio.NewReaderSize(conn, maxMessage); ; {
		head, err := from.Peek(4)
		if err != nil {
			return
		}
		size := int(binary.LittleEndian.Uint32(head))
		reply, err := from.Peek(size)
		if err != nil || size == 0 {
			return
		}
		// ENOENT: the program that asked is gone.
		if _, err := fuse.Write(reply); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		_, _ = from.Discard(size)
	}
}

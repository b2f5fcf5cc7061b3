//go:build linux

package fs

import (
	"container/list"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

const (
	// maxNodes bounds what a guest can make this process remember: some
	// 300 bytes each. Linux forgets nodes long before, to save its own memory,
	// of which it uses over a kilobyte each.
	maxNodes = 2 << 20
	// maxDepth is how many folders deep a guest can be. Linux has no such
	// limit, but no path that it takes names more than 2048.
	maxDepth = 1024
	// fresh is how long the guest may use names and attributes without
	// asking, under the subtree policy, and how long this process trusts that
	// a folder is where it was.
	fresh = time.Second
	// barelyFresh is how long attributes hold where whoever asks is the owner. Any
	// look-up asks; this only lets the question that the guest's kernel asks
	// right after it use the answer.
	barelyFresh = time.Millisecond
)

// session is one mount of the share by the guest, and the file system that
// go-fuse serves. It embeds what answers ENOSYS, which tells the guest's kernel
// not to ask again: FLUSH (writes are written through, on most hosts), ACCESS (the guest's
// kernel checks permissions itself), locks (its own too), TMPFILE, IOCTL.
type session struct {
	fuse.RawFileSystem
	dev      *Device
	policy   vm.Ownership
	protocol *fuse.ProtocolServer
	requests sync.WaitGroup // in progress; Add only while current, under Device.mu

	nameTTL, attrTTL time.Duration

	mu       sync.Mutex
	nodes    map[uint64]*node
	byID     map[identity]*node
	handles  map[uint64]*handle
	opened   map[uint32]int // how many of them by each user of the guest
	lastNode uint64
	lastFH   uint64
	paths    list.List // of *node that hold a descriptor, latest used first

	maxPaths, maxHandles int
}

var _ fuse.RawFileSystem = (*session)(nil)

// identity tells files apart, also from those that had the same inode number
// before.
type identity struct {
	dev, ino uint64
	born     int64 // zero where the file system does not tell
}

// node is a file that the guest's kernel knows. session.mu guards all but the
// constants.
type node struct {
	id       uint64   // constant, as are the next two
	identity identity //
	kind     uint32   // S_IFREG, S_IFDIR or S_IFLNK

	// Where it was last seen: a name in a folder. The root has no parent.
	parent *node
	name   string
	depth  int // below the root, when it was last seen

	lookups  uint64 // by the guest, less what it forgot
	children int    // nodes that have this one as their parent

	// A folder's descriptor, or that of a file that the guest removed, if it
	// has one (then elem is its place in session.paths), and when its place was
	// last checked. What was removed has no place.
	path    *descriptor
	elem    *list.Element
	checked time.Time
	removed bool
	// What the descriptor of a removed file keeps on the disk counts here.
	charged *usage
	tracked *tracked

	open  map[*handle]struct{}
	stamp stamp // of the data that the guest may have in its page cache

	zone  *zone // of rules; recomputed when the rules change
	rules *ruleset
}

func (n *node) isRoot() bool { return n.id == fuse.FUSE_ROOT_ID }

// newSession returns a session that knows the root only.
func newSession(d *Device) *session {
	root := &node{id: fuse.FUSE_ROOT_ID, identity: d.rules.root, kind: unix.S_IFDIR, path: d.root.acquire(), lookups: 1}
	s := &session{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		dev:           d,
		policy:        d.share.Ownership,
		nodes:         map[uint64]*node{root.id: root},
		byID:          map[identity]*node{root.identity: root},
		handles:       map[uint64]*handle{},
		opened:        map[uint32]int{},
		lastNode:      root.id,
		nameTTL:       fresh,
		attrTTL:       fresh,
		maxPaths:      d.files / 4,
		maxHandles:    d.files - d.files/4,
	}
	if s.policy != vm.OwnershipSubtree {
		s.nameTTL, s.attrTTL = 0, barelyFresh
	}
	s.protocol = newProtocol(s)
	return s
}

func (s *session) String() string { return s.dev.share.Tag }

// close lets go of everything. No request is in progress.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handles {
		h.close()
	}
	for _, n := range s.nodes {
		s.losePathLocked(n)
	}
	s.nodes[fuse.FUSE_ROOT_ID].path.release() // last: what no longer counts may have a subtree counted
	s.nodes, s.byID, s.handles = nil, nil, nil
}

// node returns the node that a request names.
func (s *session) node(id uint64) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		return n, nil
	}
	return nil, unix.ESTALE
}

// enter makes the file at a place known to the guest, or known to it once more.
func (s *session) enter(parent *node, name string, id identity, kind uint32) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byID[id]
	if n == nil || n.kind != kind {
		if len(s.nodes) >= maxNodes {
			return nil, unix.ENFILE
		}
		s.lastNode++
		n = &node{id: s.lastNode, identity: id, kind: kind}
		s.nodes[n.id], s.byID[id] = n, n
	}
	n.lookups++
	s.placeLocked(n, parent, name)
	return n, nil
}

// placeLocked notes where a node is.
func (s *session) placeLocked(n, parent *node, name string) {
	if n.removed { // and has another name, or a new one
		n.removed = false
		s.losePathLocked(n)
	}
	if n.isRoot() || n.parent == parent && n.name == name {
		return
	}
	old := n.parent
	parent.children++
	n.parent, n.name, n.depth = parent, name, parent.depth+1
	n.checked, n.rules = time.Time{}, nil
	if old != nil {
		old.children--
		s.dropLocked(old)
	}
}

func (s *session) Forget(id, lookups uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		n.lookups -= min(lookups, n.lookups)
		s.dropLocked(n)
	}
}

// dropLocked removes a node that neither the guest nor a child needs, and then
// perhaps its parents. A request in progress may still use it: its descriptor
// has references of its own.
func (s *session) dropLocked(n *node) {
	for n != nil && n.lookups == 0 && n.children == 0 && !n.isRoot() && s.nodes[n.id] == n {
		delete(s.nodes, n.id)
		if s.byID[n.identity] == n {
			delete(s.byID, n.identity)
		}
		s.losePathLocked(n)
		n.parent.children--
		n = n.parent
	}
}

// holdPathLocked keeps a descriptor of a node, for as long as there is room.
func (s *session) holdPathLocked(n *node, d *descriptor) {
	if n.path != nil || s.nodes[n.id] != n {
		return
	}
	n.path, n.elem = d.acquire(), s.paths.PushFront(n)
	if s.paths.Len() > s.maxPaths {
		s.losePathLocked(s.paths.Back().Value.(*node))
	}
}

// losePathLocked gives up a node's descriptor.
func (s *session) losePathLocked(n *node) {
	if n.elem != nil {
		s.paths.Remove(n.elem)
		n.path.release()
		n.elem, n.path = nil, nil
	}
	if n.charged != nil {
		n.charged.untrack(n.tracked)
		n.charged.kept.Add(-1)
		n.charged, n.tracked = nil, nil
	}
}

// reserve reserves size bytes for a write, or fails if the disk or a quota is full. The caller must
// call u.settle with the same size.
func (s *session) reserve(u *usage, size int64) error {
	if size > 0 {
		if err := s.dev.floor.take(s.dev.root, size, 0); err != nil {
			return err
		}
	}
	return s.retryFreed(u, func() error { return u.reserve(size) })
}

// mayAdd fails if the disk or a quota has no space for a name and so many more files.
func (s *session) mayAdd(u *usage, files int64) error {
	if err := s.dev.floor.take(s.dev.root, 0, files); err != nil {
		return err
	}
	return s.retryFreed(u, func() error { return u.mayAdd(files) })
}

// retryFreed calls f, which asks for a part of a quota. If f fails, it frees removed files that are
// kept in case the guest still opens them, and calls f again.
func (s *session) retryFreed(u *usage, f func() error) error {
	err := f()
	if err != nil && s.freeRemoved(u) {
		err = f()
	}
	return err
}

// freeRemoved drops the descriptors of removed files that count in a usage. It reports whether
// there were any.
func (s *session) freeRemoved(u *usage) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next *list.Element
	for e := s.paths.Front(); e != nil && u.kept.Load() > 0; e = next {
		next = e.Next()
		if n := e.Value.(*node); n.charged == u {
			s.losePathLocked(n)
			some = true
		}
	}
	return some
}

// status turns an error into FUSE's number for it.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if e, ok := err.(syscall.Errno); ok {
		return fuse.Status(e)
	}
	return fuse.ToStatus(err)
}

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
	// maxNodes bounds the memory for nodes, of about 300 bytes each. Linux forgets nodes long
	// before, since it uses over a kilobyte for each.
	maxNodes = 2 << 20
	// maxDepth is the deepest nesting of folders. Linux has no such limit, but its longest path
	// has 2048 names.
	maxDepth = 1024
	// fresh is how long the guest may cache names and attributes under OwnershipSubtree, and how
	// long this process assumes that a folder is still in its place.
	fresh = time.Second
	// barelyFresh is how long the guest may cache attributes under other policies: only until the
	// request that its kernel sends right after a look-up.
	barelyFresh = time.Millisecond
)

// session is one mount of the share by the guest. Requests that it does not implement get ENOSYS from the
// embedded default, and the guest's kernel does not send them again: FLUSH
// (writes are written through), ACCESS and locks (the guest's kernel handles them), extended attributes
// (which no copy of a home keeps), TMPFILE, IOCTL.
type session struct {
	fuse.RawFileSystem
	dev      *Server
	policy   vm.Ownership
	files    fuse.RawFileSystem // the session, or what Options.Wrap makes of it
	requests sync.WaitGroup     // in progress; Add only under Server.mu while it is current

	nameTTL, attrTTL time.Duration

	mu       sync.Mutex
	nodes    map[uint64]*node
	byID     map[identity]*node
	handles  map[uint64]*handle
	opened   map[uint32]int // number of handles by guest uid
	lastNode uint64
	lastFH   uint64
	paths    list.List // of *node with a descriptor, last used first

	maxPaths, maxHandles int
}

var _ fuse.RawFileSystem = (*session)(nil)

// identity identifies a file, even if its inode number was used before.
type identity struct {
	dev, ino uint64
	born     int64 // zero if the file system has no times of birth
}

// node is a file that the guest's kernel knows. session.mu guards all except the constants.
type node struct {
	id       uint64   // constant, as are the next two
	identity identity //
	kind     uint32   // S_IFREG, S_IFDIR or S_IFLNK

	// Its last known place. The root has none.
	parent *node
	name   string
	depth  int // below the root

	lookups  uint64 // of the guest, without those that it forgot
	children int    // nodes with this parent

	// The descriptor of a folder, or of a file that the guest has removed, or nil. elem is its
	// element in session.paths. checked is when its place was checked; a removed file has none.
	path    *descriptor
	elem    *list.Element
	checked time.Time
	removed bool
	// The quota in which a removed file counts while path holds it.
	charged *usage
	tracked *tracked

	open  map[*handle]struct{}
	stamp stamp // of data that the guest may have cached

	zone  *zone // in rules
	rules *ruleset
}

func (n *node) isRoot() bool { return n.id == fuse.FUSE_ROOT_ID }

// newSession returns a session that has only the root node.
func newSession(d *Server) *session {
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
		maxPaths:      d.opts.Files / 4,
		maxHandles:    d.opts.Files - d.opts.Files/4,
	}
	if s.policy != vm.OwnershipSubtree {
		s.nameTTL, s.attrTTL = 0, barelyFresh
	}
	if s.files = s; d.opts.Wrap != nil {
		s.files = d.opts.Wrap(s)
	}
	return s
}

// close releases everything. No request may be in progress.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handles {
		h.close()
	}
	for _, n := range s.nodes {
		s.losePathLocked(n)
	}
	s.nodes[fuse.FUSE_ROOT_ID].path.release() // last: usages may start a walk from it
	s.nodes, s.byID, s.handles = nil, nil, nil
}

// node returns the node with a number.
func (s *session) node(id uint64) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		return n, nil
	}
	return nil, unix.ESTALE
}

// enter returns the node of the file at a place and counts a look-up.
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

// placeLocked sets a node's place.
func (s *session) placeLocked(n, parent *node, name string) {
	if n.removed { // it has another name
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

// dropLocked removes a node that neither the guest nor a child needs, then its parents likewise. A
// request in progress may still use it, with its own reference to the descriptor.
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

// holdPathLocked keeps a node's descriptor until too many others are used after it.
func (s *session) holdPathLocked(n *node, d *descriptor) {
	if n.path != nil || s.nodes[n.id] != n {
		return
	}
	n.path, n.elem = d.acquire(), s.paths.PushFront(n)
	if s.paths.Len() > s.maxPaths {
		s.losePathLocked(s.paths.Back().Value.(*node))
	}
}

// losePathLocked releases a node's descriptor.
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

// status returns FUSE's number for an error.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if e, ok := err.(syscall.Errno); ok {
		return fuse.Status(e)
	}
	return fuse.ToStatus(err)
}

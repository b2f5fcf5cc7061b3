package fs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// handle is a file or folder that the guest has open.
type handle struct {
	node     *node
	file     *descriptor
	writable bool
	opener   uint32 // uid in the guest

	mu      sync.Mutex
	closed  bool
	usage   *usage // that tracked belongs to
	tracked *tracked
	listing listing // of a folder
}

func (h *handle) close() {
	h.mu.Lock()
	h.usage.untrack(h.tracked)
	h.usage, h.tracked, h.closed = nil, nil, true
	h.mu.Unlock()
	h.file.release()
}

// charge returns the file's record in the quota u. It moves the file if the rules have changed.
func (h *handle) charge(u *usage) (*tracked, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, unix.EBADF
	}
	if h.usage != u {
		t, err := u.track(h.file)
		if err != nil {
			return nil, err
		}
		h.usage.untrack(h.tracked)
		h.usage, h.tracked = u, t
	}
	return h.tracked, nil
}

// handle returns an open file. The caller must release h.file after use.
func (s *session) handle(fh uint64) (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.handles[fh]
	if h == nil {
		return nil, unix.EBADF
	}
	h.file.acquire()
	return h, nil
}

// mayOpen fails if a guest user has too many open files. A user may open at most as many as are
// left, so one user can take half, the next a quarter, and some always remain.
func (s *session) mayOpen(user uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[user] >= s.maxHandles-len(s.handles) {
		return unix.ENFILE
	}
	return nil
}

// openHandle assigns a number to an open file or folder and takes ownership of d. The file counts
// in its quota while it is open, even if it is removed.
func (s *session) openHandle(n *node, d *descriptor, writable bool, user uint32) (uint64, error) {
	h := &handle{node: n, file: d, writable: writable, opener: user}
	if _, err := h.charge(s.zone(n).usage); err != nil {
		d.release()
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFH++
	s.handles[s.lastFH] = h
	s.opened[user]++
	if n.open == nil {
		n.open = map[*handle]struct{}{}
	}
	n.open[h] = struct{}{}
	return s.lastFH, nil
}

// follow tracks a file that is about to lose a name. It also charges its open handles to the
// current usage, since they may have been opened before there was a limit.
func (s *session) follow(u *usage, d *descriptor, info *fileInfo) (*tracked, error) {
	s.mu.Lock()
	var open []*handle
	if n := s.byID[info.identity()]; n != nil {
		open = slices.Collect(maps.Keys(n.open))
	}
	s.mu.Unlock()
	for _, h := range open {
		if _, err := h.charge(u); err != nil && err != unix.EBADF { // closed meanwhile
			return nil, err
		}
	}
	return u.track(d)
}

// removeHandle closes an open file once its requests are done.
func (s *session) removeHandle(fh uint64) {
	s.mu.Lock()
	h := s.handles[fh]
	delete(s.handles, fh)
	if h != nil {
		if s.opened[h.opener]--; s.opened[h.opener] == 0 {
			delete(s.opened, h.opener)
		}
		if delete(h.node.open, h); len(h.node.open) == 0 {
			h.node.open = nil
		}
	}
	s.mu.Unlock()
	if h != nil {
		h.close()
	}
}

// stamp identifies a version of a file's data.
type stamp struct {
	size                uint64
	mtime, ctime, taken int64
}

// settled is the age at which a change can be told from the next by its time stamp. It is longer
// than Linux's coarsest clock tick for file times.
const settled = int64(20 * time.Millisecond)

// cacheHolds reports whether the guest's cached pages of a file are still valid.
func (s *session) cacheHolds(n *node, info *fileInfo) bool {
	now := stamp{info.Size, info.Mtime.nanos(), info.Ctime.nanos(), time.Now().UnixNano()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := n.stamp
	n.stamp = now
	return s.nameTTL > 0 && old.size == now.size && old.mtime == now.mtime && old.ctime == now.ctime && old.taken-old.ctime > settled
}

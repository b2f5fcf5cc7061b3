//go:build linux

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
	opener   uint32 // the user of the guest

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

// charge returns where the file's growth counts, which changes with the rules.
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

// handle returns an open file; done must be called when it is no longer used.
func (s *session) handle(fh uint64) (h *handle, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.handles[fh]
	if h == nil {
		return nil, nil, unix.EBADF
	}
	h.file.acquire()
	return h, h.file.release, nil
}

// mayOpen refuses a user of the guest one open file too many. Each may have as
// many as are left, so one that opens what it can leaves half to the next, and
// however many do so, there are some for whoever comes then.
func (s *session) mayOpen(user uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[user] >= s.maxHandles-len(s.handles) {
		return unix.ENFILE
	}
	return nil
}

// openHandle gives an open file or folder a number. It takes d over, which counts for as long as it is
// open, whatever becomes of its name.
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

// follow tracks a file that is about to lose a name, of which d is a descriptor and info what that told,
// and has those who have it open count it where it counts now: they may have opened it before there was
// a limit.
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

// removeHandle closes an open file when the requests on it are done.
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

// stamp tells whether a file's data has changed.
type stamp struct {
	size                uint64
	mtime, ctime, taken int64
}

// settled is how old a change must be for the file's times to tell it from the
// next: longer than the coarsest clock tick that Linux stamps files with.
const settled = int64(20 * time.Millisecond)

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// cacheHolds reports whether the guest may keep the pages of a file that it
// still has from when it was last open.
func (s *session) cacheHolds(n *node, info *fileInfo) bool {
	now := stamp{info.Size, nanos(info.Mtime), nanos(info.Ctime), time.Now().UnixNano()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := n.stamp
	n.stamp = now
	return s.nameTTL > 0 && old.size == now.size && old.mtime == now.mtime && old.ctime == now.ctime && old.taken-old.ctime > settled
}

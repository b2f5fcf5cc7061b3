//go:build linux

package fs

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a subtree with limits holds: bytes as the disk gives them to
// its files and folders (a sparse file counts what it has, not what it spans; a folder grows
// with the names in it), and files of every kind, each counted once for all its
// links. A nil usage has no limits; where methods allow it, they do nothing.
//
// It is counted by walking the subtree once, in the background, and from then
// on kept by what the guest does. What the host does to the subtree is noticed
// only by the next walk, which a refused request asks for, and so does much
// that is removed: file systems add to files behind our back, and what they
// added is given back with the rest. What happens during a walk may be counted
// twice until the next, but never not at all: a walk during which something was
// moved never lowers the count.
type usage struct {
	rules *rules
	path  string // of the subtree

	// names is held while files get or lose names, together with the counting of
	// it: a file's last name is known to be the last. shrinking is held by all
	// who have files give room back, which may take long, together with the
	// counting of that. The end of a walk holds both, so none comes between an
	// act and its being counted: shrinking first, then names, then mu.
	shrinking sync.RWMutex
	names     sync.Mutex

	// kept is how many removed files a session keeps a descriptor of, for which nobody may ask.
	kept atomic.Int64

	mu                 sync.Mutex
	maxBytes, maxFiles int64 // zero is no limit
	bytes, files       int64
	reserved           int64 // for writes in progress
	tracked            map[identity]*tracked

	walking     bool
	nextWalk    time.Time
	shrunk      int64 // bytes given back since the last walk began
	grown       int64 // bytes and files that came since then
	grownFiles  int64
	moved       bool // something, since then
	everCounted bool
}

// tracked is a file that is open or being changed.
type tracked struct {
	id     identity
	refs   int
	bytes  int64 // as counted
	orphan bool  // it has no name any more: it counts until it is closed
}

func newUsage(r *rules, path string) *usage {
	return &usage{rules: r, path: path, tracked: map[identity]*tracked{}}
}

// limit sets the limits and starts counting if that was never done.
func (u *usage) limit(bytes, files int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.maxBytes, u.maxFiles = bytes, files
	if !u.everCounted {
		u.countLocked()
	}
}

// recountShare is the part of the limit that may be given back before a walk
// checks the count.
const recountShare = 8

// addLocked notes a change. A first walk that has failed is tried again.
func (u *usage) addLocked(bytes, files int64) {
	u.bytes, u.files = u.bytes+bytes, u.files+files
	if u.walking {
		u.grown, u.grownFiles = u.grown+max(bytes, 0), u.grownFiles+max(files, 0)
	}
	if u.shrunk += max(-bytes, 0); u.maxBytes > 0 && u.shrunk > u.maxBytes/recountShare || !u.everCounted {
		u.countLocked()
	}
}

// mayAdd refuses so many files and a name where that is too much. What is full takes no name: it takes
// room in its folder. The caller holds names until added.
func (u *usage) mayAdd(files int64) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.maxFiles > 0 && files > max(0, u.maxFiles-u.files) || u.maxBytes > 0 && u.bytes+u.reserved >= u.maxBytes {
		u.countLocked()
		return unix.EDQUOT
	}
	return nil
}

// added counts what was just made, as so many files.
func (u *usage) added(info *fileInfo, files int64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addLocked(info.bytes(), files)
}

// track begins to follow a file's size; untrack ends it.
func (u *usage) track(d *descriptor) (*tracked, error) {
	if u == nil {
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var info fileInfo
	if err := d.stat(&info); err != nil {
		return nil, err
	}
	id := info.identity()
	t := u.tracked[id]
	if t == nil {
		t = &tracked{id: id, bytes: info.bytes()}
		u.tracked[id] = t
		if info.Nlink == 0 { // its last name went between opening and this
			t.orphan = true
			u.addLocked(t.bytes, 1)
		}
	}
	t.refs++
	return t, nil
}

func (u *usage) untrack(t *tracked) {
	if u == nil || t == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if t.refs--; t.refs > 0 {
		return
	}
	delete(u.tracked, t.id)
	if t.orphan {
		u.addLocked(-t.bytes, -1)
	}
}

// changing runs f, which may have a file or a folder take more room or less, and counts that. The caller
// holds names or shrinking.
func (u *usage) changing(d *descriptor, f func() error) error {
	t, err := u.track(d)
	if err != nil {
		return err
	}
	defer u.untrack(t)
	defer u.settle(t, d, 0)
	return f()
}

// reserve makes room for n bytes more, or refuses them; none are never
// refused. settle follows, with the same n.
func (u *usage) reserve(n int64) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.maxBytes > 0 && n > 0 && n > u.maxBytes-u.bytes-u.reserved {
		u.countLocked()
		return unix.EDQUOT
	}
	u.reserved += n
	return nil
}

// settle counts what became of a file for which n bytes were reserved.
func (u *usage) settle(t *tracked, d *descriptor, n int64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reserved -= n
	var info fileInfo
	if d.stat(&info) != nil {
		return
	}
	u.addLocked(info.bytes()-t.bytes, 0)
	t.bytes = info.bytes()
}

// removed notes that a name of a file is gone, of which info was read while
// names was held.
func (u *usage) removed(info *fileInfo) {
	if u == nil || info.kind() != unix.S_IFDIR && info.Nlink > 1 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.tracked[info.identity()]; t != nil {
		t.orphan = true
	} else {
		u.addLocked(-info.bytes(), -1)
	}
}

// renamed notes that something was moved within the subtree.
func (u *usage) renamed() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.moved = true
}

// shrink holds shrinking, as others may, until the returned function is called.
func (u *usage) shrink() (unlock func()) {
	if u == nil {
		return func() {}
	}
	u.shrinking.RLock()
	return u.shrinking.RUnlock
}

// lockNames holds names until the returned function is called.
func (u *usage) lockNames() (unlock func()) {
	if u == nil {
		return func() {}
	}
	u.names.Lock()
	return u.names.Unlock
}

// room returns the limits and what is left of them, which is never negative.
func (u *usage) room() (maxBytes, bytesLeft, maxFiles, filesLeft int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.maxBytes, max(0, u.maxBytes-u.bytes-u.reserved), u.maxFiles, max(0, u.maxFiles-u.files)
}

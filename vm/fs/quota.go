package fs

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// usage counts the contents of a subtree with limits: the bytes that files and folders occupy on
// disk (holes do not count, and a folder grows with its names), and the number of files of every
// kind, each once even if it has several links. A nil usage has no limits, and most methods accept
// it.
//
// A walk through the subtree counts it once, in the background. Then the guest's requests update the
// count. Changes by the host are noticed only by the next walk. A refused request starts one, and so
// do large removals, since file systems allocate blocks of their own that are freed with a file.
// Changes during a walk may count twice until the next one, but never not at all: a walk during
// which something was moved never lowers the count.
type usage struct {
	rules *rules
	path  string // of the subtree

	// names is held while files get or lose names and that is counted, so that the last name of a
	// file is recognized. shrinking is held (shared) while space is freed, which may take long, and
	// counted. The end of a walk holds both, so that it cannot come between a change and its count.
	// Lock order: shrinking, names, mu.
	shrinking sync.RWMutex
	names     sync.Mutex

	// kept counts removed files whose descriptors a session keeps in case the guest still opens
	// them.
	kept atomic.Int64

	mu                 sync.Mutex
	maxBytes, maxFiles int64 // zero for no limit
	bytes, files       int64
	reserved           int64 // for writes in progress
	tracked            map[identity]*tracked

	walking     bool
	nextWalk    time.Time
	shrunk      int64 // bytes freed since the last walk began
	grown       int64 // bytes and files added since then
	grownFiles  int64
	moved       bool // something was moved since then
	everCounted bool
	recounts    int64 // of the subtree
	again       bool  // walk once more when the walk ends
}

// tracked is a file that is open or being changed.
type tracked struct {
	id     identity
	refs   int
	bytes  int64 // as counted
	orphan bool  // without a name: counts until it is closed
}

func newUsage(r *rules, path string) *usage {
	return &usage{rules: r, path: path, tracked: map[identity]*tracked{}}
}

// limit sets the limits and starts a first walk if there was none, and another when recounts differs
// from before: the host has changed the contents.
func (u *usage) limit(bytes, files, recounts int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.maxBytes, u.maxFiles = bytes, files
	if recounts != u.recounts {
		u.recounts, u.nextWalk, u.again = recounts, time.Time{}, u.walking
	}
	if u.nextWalk.IsZero() || !u.everCounted {
		u.countLocked()
	}
}

// recountShare is the fraction (1/8) of the limit that may be freed before a walk checks the count.
const recountShare = 8

// addLocked adds a change to the count. It retries a failed first walk.
func (u *usage) addLocked(bytes, files int64) {
	u.bytes, u.files = u.bytes+bytes, u.files+files
	if u.walking {
		u.grown, u.grownFiles = u.grown+max(bytes, 0), u.grownFiles+max(files, 0)
	}
	if u.shrunk += max(-bytes, 0); u.maxBytes > 0 && u.shrunk > u.maxBytes/recountShare || !u.everCounted {
		u.countLocked()
	}
}

// mayAdd fails if the limits do not allow so many more files, or another name, which needs space in
// its folder. The caller holds names until it has called added.
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

// added counts a new file or name.
func (u *usage) added(info *fileInfo, files int64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addLocked(info.bytes(), files)
}

// track starts to track a file's size. The caller must call untrack.
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
		if info.Nlink == 0 { // removed since it was opened
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

// changing runs f, which may change the size of a file or folder, and counts the difference. The
// caller holds names or shrinking.
func (u *usage) changing(d *descriptor, f func() error) error {
	t, err := u.track(d)
	if err != nil {
		return err
	}
	defer u.untrack(t)
	defer u.settle(t, d, 0)
	return f()
}

// reserve reserves n bytes, or fails if the limit does not allow them. Zero bytes never fail. The
// caller must call settle with the same n.
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

// settle releases a reservation of n bytes and counts the file's new size.
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

// removed counts the removal of a name. Info must have been read while names was held.
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

// renamed records that something was moved within the subtree.
func (u *usage) renamed() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.moved = true
}

// shrink locks shrinking (shared) until unlock is called.
func (u *usage) shrink() (unlock func()) {
	if u == nil {
		return func() {}
	}
	u.shrinking.RLock()
	return u.shrinking.RUnlock
}

// lockNames locks names until unlock is called.
func (u *usage) lockNames() (unlock func()) {
	if u == nil {
		return func() {}
	}
	u.names.Lock()
	return u.names.Unlock
}

// room returns the limits and what is left of them, at least 0.
func (u *usage) room() (maxBytes, bytesLeft, maxFiles, filesLeft int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.maxBytes, max(0, u.maxBytes-u.bytes-u.reserved), u.maxFiles, max(0, u.maxFiles-u.files)
}

//go:build linux

package fs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

const kib = 1 << 10

// limited is a share with the limited subtree "home". Its limit excludes its own folder.
type limited struct {
	*client
	home     uint64
	maxBytes int64
}

func newLimited(t testing.TB, maxBytes, maxFiles int64) limited {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	var own unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "home"), &own); err != nil {
		t.Fatal(err)
	}
	if maxBytes > 0 {
		maxBytes += own.Blocks * blockSize
	}
	c := newClient(t, vm.Share{Path: dir, Subtrees: subtrees(t, vm.Subtree{Path: "home", MaxBytes: maxBytes, MaxFiles: maxFiles})}, Options{})
	l := limited{c, must(c.walk("home"))(t).NodeId, maxBytes}
	l.settled()
	u := l.usage()
	u.mu.Lock()
	u.nextWalk = time.Now().Add(time.Hour) // when the test says so
	u.mu.Unlock()
	return l
}

func (l limited) usage() *usage {
	l.dev.rules.mu.Lock()
	defer l.dev.rules.mu.Unlock()
	return l.dev.rules.usages["home"]
}

// settled waits for the end of a walk.
func (l limited) settled() { l.t.Helper(); l.settles(l.usage()) }

func (l limited) settles(u *usage) {
	l.t.Helper()
	for range 3000 {
		u.mu.Lock()
		walking := u.walking
		u.mu.Unlock()
		if !walking {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.t.Fatal("the walk does not end")
}

// exact checks that the count equals the result of a walk.
func (l limited) exact() { l.t.Helper(); l.agrees(l.usage()) }

func (l limited) agrees(u *usage) {
	l.t.Helper()
	if s := l.dev.session(); s != nil {
		s.freeRemoved(u) // which no walk finds
		s.requests.Done()
	}
	bytes, files, err := u.count(l.dev.root)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil || bytes != u.bytes || files != u.files || u.reserved != 0 {
		l.t.Errorf("%s: counted %d bytes and %d files (%d reserved), a walk finds %d and %d (%v)", u.path, u.bytes, u.files, u.reserved, bytes, files, err)
	}
}

// snapshot counts while the subtree may only grow, so that it never holds less than the result.
func (l limited) snapshot() (bytes, files int64, err error) {
	u := l.usage()
	u.shrinking.Lock()
	defer u.shrinking.Unlock()
	defer u.lockNames()()
	return u.count(l.dev.root)
}

// left returns the bytes left in the quota.
func (l limited) left() int64 {
	_, left, _, _ := l.usage().room()
	return left
}

// due lets the next walk start at once.
func (l limited) due() {
	u := l.usage()
	u.mu.Lock()
	u.nextWalk = time.Time{}
	u.mu.Unlock()
}

func TestByteLimit(t *testing.T) {
	l := newLimited(t, 1024*kib, 0)
	f := must(l.create(l.home, "f"))(t)
	block := make([]byte, 256*kib)
	for i := range uint64(4) {
		want(t, "write", l.write(f.Fh, i*256*kib, block, 0), nil)
	}
	l.exact()
	want(t, "write too much", l.write(f.Fh, 1024*kib, block[:1], 0), unix.EDQUOT)
	want(t, "append too much", l.write(f.Fh, 0, block[:1], unix.O_APPEND), unix.EDQUOT)
	want(t, "reserve too much", l.fallocate(f.Fh, 2048*kib, 1, 0), unix.EDQUOT)
	want(t, "write over what is there", l.write(f.Fh, 100, block, 0), nil)
	want(t, "grow without data", second(l.setattr(f.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 1 << 40})), nil)
	if s := l.statfs(l.home); int64(s.Blocks)*int64(s.Frsize) != l.maxBytes || s.Bavail != 0 {
		t.Errorf("df shows %d blocks, %d free", s.Blocks, s.Bavail)
	}
	if s := l.statfs(root); s.Bavail*uint64(s.Frsize) <= 1024*kib {
		t.Errorf("df shows %d free outside", s.Bavail)
	}
	want(t, "punch a hole", l.fallocate(f.Fh, 0, 512*kib, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE), nil)
	l.exact()
	want(t, "write into the hole", l.write(f.Fh, 0, block, 0), nil)
	want(t, "truncate", second(l.setattr(f.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE | fuse.FATTR_FH, Fh: f.Fh})), nil)
	l.exact()
	want(t, "write after that", l.write(f.Fh, 0, block, 0), nil)
	l.release(f.Fh)
	want(t, "truncate by name", second(l.open(f.NodeId, unix.O_WRONLY|unix.O_TRUNC)), nil)
	l.exact()
}

func TestFileLimit(t *testing.T) {
	l := newLimited(t, 0, 5)
	f := must(l.create(l.home, "f"))(t)
	must(l.mkdir(l.home, "d"))(t)
	want(t, "symlink", l.symlink(l.home, "s", "f"), nil)
	for i := range 4 {
		want(t, "link", l.link(f.NodeId, l.home, fmt.Sprint("link", i)), nil)
	}
	must(l.mkdir(l.home, "d2"))(t)
	must(call[fuse.EntryOut](l.client, opMknod, l.home, &fuse.MknodIn{Mode: unix.S_IFREG | 0o600}, "n"))(t)
	l.exact()
	want(t, "create", second(l.create(l.home, "x")), unix.EDQUOT)
	want(t, "mkdir", second(l.mkdir(l.home, "x")), unix.EDQUOT)
	want(t, "symlink", l.symlink(l.home, "x", "y"), unix.EDQUOT)
	if s := l.statfs(l.home); s.Files != 5 || s.Ffree != 0 {
		t.Errorf("df -i shows %d, %d free", s.Files, s.Ffree)
	}
	want(t, "unlink one of many names", l.unlink(l.home, "link0"), nil)
	want(t, "create", second(l.create(l.home, "x")), unix.EDQUOT)
	want(t, "rename over a file", l.rename(l.home, "n", l.home, "s", 0), nil)
	want(t, "rename over a link to itself", l.rename(l.home, "link1", l.home, "link2", 0), nil)
	want(t, "exchange", l.rename(l.home, "d", l.home, "f", unix.RENAME_EXCHANGE), nil)
	want(t, "rmdir", l.rmdir(l.home, "d2"), nil)
	l.exact()
	must(l.create(l.home, "x"))(t)
	must(l.create(l.home, "y"))(t)
	want(t, "create", second(l.create(l.home, "z")), unix.EDQUOT)
}

func TestQuotaBorders(t *testing.T) {
	l := newLimited(t, 100*kib, 0)
	inside := must(l.create(l.home, "in"))(t)
	beyond := must(l.create(root, "out"))(t)
	want(t, "move in", l.rename(root, "out", l.home, "out", 0), unix.EXDEV)
	want(t, "move out", l.rename(l.home, "in", root, "in", 0), unix.EXDEV)
	want(t, "exchange", l.rename(l.home, "in", root, "out", unix.RENAME_EXCHANGE), unix.EXDEV)
	want(t, "link in", l.link(beyond.NodeId, l.home, "x"), unix.EXDEV)
	want(t, "link out", l.link(inside.NodeId, root, "x"), unix.EXDEV)
	want(t, "move the subtree", l.rename(root, "home", root, "free", 0), unix.EBUSY)
	want(t, "write beyond", l.write(beyond.Fh, 0, make([]byte, 200*kib), 0), nil)
	want(t, "write within", l.write(inside.Fh, 0, make([]byte, 200*kib), 0), unix.EDQUOT)
	// A new limit applies to a file that is already open.
	if err := l.dev.share.Subtrees.Set(vm.Subtree{Path: "home", MaxBytes: 1000 * kib}); err != nil {
		t.Fatal(err)
	}
	want(t, "write within the new limit", l.write(inside.Fh, 0, make([]byte, 200*kib), 0), nil)
	if err := l.dev.share.Subtrees.Set(vm.Subtree{Path: "home", MaxBytes: 200 * kib}); err != nil {
		t.Fatal(err)
	}
	want(t, "write more", l.write(inside.Fh, 200*kib, make([]byte, 4*kib), 0), unix.EDQUOT)
}

// Space of links counts, and is freed once.
func TestSpaceWithoutWrites(t *testing.T) {
	l := newLimited(t, 1024*kib, 0)
	for i := range 10 {
		name := fmt.Sprint("link", i)
		want(t, "symlink", l.symlink(l.home, name, string(bytes.Repeat([]byte("t"), 1000))), nil) // XFS takes no more than 1023
		l.exact()
		if i%2 == 0 {
			want(t, "unlink", l.unlink(l.home, name), nil)
		}
	}
	f := must(l.create(l.home, "f"))(t)
	want(t, "fill the rest", l.fallocate(f.Fh, 0, uint64(l.left()), 0), nil)
	l.release(f.Fh)
	want(t, "unlink", l.unlink(l.home, "f"), nil)
	l.exact()
}

// Existing files count, and the host's changes count after a walk.
func TestHostChangesUsage(t *testing.T) {
	dir := t.TempDir()
	c := &client{dir: dir, t: t}
	c.host("home/a/b/old", string(make([]byte, 500*kib)))
	if err := os.Link(filepath.Join(dir, "home/a/b/old"), filepath.Join(dir, "home/again")); err != nil {
		t.Fatal(err)
	}
	l := newLimited(t, 1000*kib, 0)
	l.dev.Close()
	l.client = newClient(t, vm.Share{Path: dir, Subtrees: l.dev.share.Subtrees}, Options{})
	l.home = must(l.walk("home"))(t).NodeId
	l.settled()
	l.exact()
	f := must(l.create(l.home, "f"))(t)
	want(t, "write too much", l.write(f.Fh, 0, make([]byte, 600*kib), 0), unix.EDQUOT)
	l.settled()
	for _, p := range []string{"home/a", "home/again"} {
		if err := os.RemoveAll(filepath.Join(dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	l.due() // the refusal starts a walk
	want(t, "write too much", l.write(f.Fh, 0, make([]byte, 600*kib), 0), unix.EDQUOT)
	l.settled()
	want(t, "write", l.write(f.Fh, 0, make([]byte, 600*kib), 0), nil)
	l.exact()

	// A recount needs no refusal, and waits for no pause.
	l.host("home/b", string(make([]byte, 300*kib)))
	l.dev.share.Subtrees.Recount("home")
	must(l.walk("home"))(t)
	l.settled()
	l.exact()
}

// A failed walk must be repeated, and a folder that is removed meanwhile must not fail it.
func TestWalkFails(t *testing.T) {
	c := newClient(t, vm.Share{Subtrees: subtrees(t)}, Options{})
	c.host("home", "no folder")
	if err := c.dev.share.Subtrees.Set(vm.Subtree{Path: "home", MaxBytes: 1000 * kib}); err != nil {
		t.Fatal(err)
	}
	l := limited{client: c}
	c.statfs(root) // makes the device read the rules
	l.settled()
	if err := os.Remove(filepath.Join(c.dir, "home")); err != nil {
		t.Fatal(err)
	}
	c.host("home/old", string(make([]byte, 900*kib)))
	l.due()
	l.home = must(c.walk("home"))(t).NodeId
	f := must(c.create(l.home, "f"))(t)
	l.settled()
	want(t, "write too much", c.write(f.Fh, 0, make([]byte, 200*kib), 0), unix.EDQUOT)

	gone, err := os.Open(t.TempDir())
	if err == nil {
		err = os.Remove(gone.Name())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	want(t, "look into a folder that was removed", eachEntry(gone, func(string, *fileInfo) error { return unix.EIO }), nil)
}

// With concurrent requests and walks, the limit must hold and the final count be exact.
func TestConcurrentCounting(t *testing.T) {
	const limit, slack = 512 * kib, 64 * kib // slack: blocks that the disk adds
	l := newLimited(t, limit, 60)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			name := func() string { return fmt.Sprint("f", random.IntN(12)) }
			for range 400 {
				switch random.IntN(8) {
				case 0:
					_ = l.unlink(l.home, name())
				case 1:
					_ = l.rename(l.home, name(), l.home, name(), uint32(random.IntN(3)))
				case 2:
					if e, err := l.lookup(l.home, name()); err == nil {
						_ = l.link(e.NodeId, l.home, name())
					}
				case 3:
					if e, err := l.lookup(l.home, name()); err == nil {
						_, _ = l.setattr(e.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: uint64(random.IntN(64 * kib))})
					}
				default:
					f, err := l.create(l.home, name())
					if err != nil {
						continue
					}
					_ = l.write(f.Fh, uint64(random.IntN(256*kib)), make([]byte, 1+random.IntN(64*kib)), 0)
					if random.IntN(4) == 0 {
						_ = l.fallocate(f.Fh, 0, 128*kib, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
					}
					l.release(f.Fh)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for most := int64(0); ; {
		select {
		case <-done:
			if bytes, _, err := l.snapshot(); err != nil || max(most, bytes) == 0 {
				t.Errorf("nothing was written: %v", err)
			}
			l.settled()
			l.due()
			u := l.usage()
			u.mu.Lock()
			u.countLocked()
			u.mu.Unlock()
			l.settled()
			l.exact()
			return
		case <-time.After(20 * time.Millisecond):
		}
		l.due()
		bytes, files, err := l.snapshot()
		if most = max(most, bytes); err != nil || bytes > limit+slack || files > 60 {
			t.Errorf("the subtree holds %d bytes in %d files, %v", bytes, files, err)
			<-done
			return
		}
	}
}

// A large removal must start a walk, since blocks that the disk has added are freed with a file.
func TestRemovalStartsWalk(t *testing.T) {
	l := newLimited(t, 1024*kib, 0)
	u := l.usage()
	u.mu.Lock()
	u.bytes -= 500 * kib // as if too much had been freed
	u.mu.Unlock()
	l.due()
	f := must(l.create(l.home, "f"))(t)
	want(t, "write", l.write(f.Fh, 0, make([]byte, 512*kib), 0), nil)
	l.release(f.Fh)
	want(t, "unlink", l.unlink(l.home, "f"), nil)
	l.forget(f.NodeId, 9)
	l.settled()
	l.exact()
}

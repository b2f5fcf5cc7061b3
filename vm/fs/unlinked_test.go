//go:build linux

package fs

import (
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// A removed file must count until it is closed.
func TestRemovedButOpen(t *testing.T) {
	l := newLimited(t, 1024*kib, 2)
	f := must(l.create(l.home, "f"))(t)
	want(t, "write", l.write(f.Fh, 0, make([]byte, 1024*kib-8*kib), 0), nil)
	want(t, "unlink", l.unlink(l.home, "f"), nil)
	g := must(l.create(l.home, "g"))(t)
	want(t, "write beside it", l.write(g.Fh, 0, make([]byte, 64*kib), 0), unix.EDQUOT)
	want(t, "one more file", second(l.create(l.home, "h")), unix.EDQUOT)
	if a := must(l.getattr(f.NodeId))(t); a.Nlink != 0 || a.Size != 1016*kib {
		t.Errorf("the file without a name: %v", a)
	}
	// A walk must not change that.
	l.due()
	want(t, "write beside it", l.write(g.Fh, 0, make([]byte, 64*kib), 0), unix.EDQUOT)
	l.settled()
	want(t, "write beside it, after a walk", l.write(g.Fh, 0, make([]byte, 64*kib), 0), unix.EDQUOT)
	l.release(f.Fh)
	want(t, "write when it is closed", l.write(g.Fh, 0, make([]byte, 64*kib), 0), nil)
	l.exact()
}

// A removed file that the guest may still open counts, but must be freed before a request is refused.
func TestRemovedButKnown(t *testing.T) {
	l := newLimited(t, 1024*kib, 0)
	g := must(l.create(l.home, "g"))(t)
	for range 3 {
		f := must(l.create(l.home, "f"))(t)
		want(t, "write", l.write(f.Fh, 0, make([]byte, 600*kib), 0), nil)
		l.release(f.Fh)
		reader := must(l.open(f.NodeId, unix.O_RDONLY))(t)
		want(t, "unlink", l.unlink(l.home, "f"), nil)
		want(t, "write beside what is read", l.write(g.Fh, 0, make([]byte, 600*kib), 0), unix.EDQUOT)
		l.release(reader.Fh)
		want(t, "write beside what may be opened", l.write(g.Fh, 0, make([]byte, 600*kib), 0), nil)
		want(t, "look at the file that has made room", second(l.getattr(f.NodeId)), unix.ESTALE)
		l.exact()
		want(t, "truncate", second(l.setattr(g.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE | fuse.FATTR_FH, Fh: g.Fh})), nil)
	}
}

// A removed folder must count until it is closed, even if the guest forgets its node.
func TestRemovedButOpenFolder(t *testing.T) {
	l := newLimited(t, 0, 1)
	d := must(l.mkdir(l.home, "d"))(t)
	o := must(call[fuse.OpenOut](l.client, opOpenDir, d.NodeId, &fuse.OpenIn{}))(t)
	want(t, "rmdir", l.rmdir(l.home, "d"), nil)
	want(t, "create beside it", second(l.create(l.home, "f")), unix.EDQUOT)
	l.forget(d.NodeId, 1)
	want(t, "create when it is forgotten", second(l.create(l.home, "f")), unix.EDQUOT)
	l.release(o.Fh)
	want(t, "create when it is closed", second(l.create(l.home, "f")), nil)
	l.exact()
}

// Files opened before there was a limit count when they are removed or replaced.
func TestOpenBeforeLimit(t *testing.T) {
	c := newClient(t, vm.Share{Subtrees: subtrees(t, vm.Subtree{Path: "home"})}, Options{})
	c.host("home/f", string(make([]byte, 400*kib)))
	c.host("home/g", string(make([]byte, 400*kib)))
	c.host("home/new", "")
	l := limited{client: c, home: must(c.walk("home"))(t).NodeId}
	var readers []uint64
	for _, name := range []string{"f", "g"} {
		readers = append(readers, must(c.open(must(c.walk("home", name))(t).NodeId, unix.O_RDONLY))(t).Fh)
	}
	if err := c.dev.share.Subtrees.Set(vm.Subtree{Path: "home", MaxBytes: 1000 * kib}); err != nil {
		t.Fatal(err)
	}
	c.statfs(l.home)
	l.settled()
	want(t, "unlink", c.unlink(l.home, "f"), nil)
	want(t, "replace", c.rename(l.home, "new", l.home, "g", 0), nil)
	f := must(c.create(l.home, "f"))(t)
	want(t, "write beside both", c.write(f.Fh, 0, make([]byte, 400*kib), 0), unix.EDQUOT)
	c.release(readers[0])
	want(t, "write when one is closed", c.write(f.Fh, 0, make([]byte, 400*kib), 0), nil)
	want(t, "write beside the other", c.write(f.Fh, 400*kib, make([]byte, 400*kib), 0), unix.EDQUOT)
	c.release(readers[1])
	want(t, "write when both are", c.write(f.Fh, 400*kib, make([]byte, 400*kib), 0), nil)
	l.exact()
}

// A closed share is not counted again, even if much space is freed.
func TestNoWalkAfterClose(t *testing.T) {
	l := newLimited(t, 1024*kib, 0)
	f := must(l.create(l.home, "f"))(t)
	want(t, "write", l.write(f.Fh, 0, make([]byte, 512*kib), 0), nil)
	want(t, "unlink", l.unlink(l.home, "f"), nil)
	l.due()
	u := l.usage()
	u.mu.Lock()
	u.bytes += 8 * kib // so that a count would change it
	u.mu.Unlock()
	l.dev.Close()
	timetest.Eventually(t, "the root is closed", func() bool { return l.dev.root.refs.Load() == 0 })
	l.settled()
	u.mu.Lock()
	defer u.mu.Unlock()
	var own unix.Stat_t
	if err := unix.Stat(filepath.Join(l.dir, "home"), &own); err != nil {
		t.Fatal(err)
	}
	if want := 8*kib + own.Blocks*blockSize; u.bytes != want {
		t.Errorf("%d bytes are counted, want %d", u.bytes, want)
	}
}

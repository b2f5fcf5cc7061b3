//go:build linux

package fs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

// Nodes must not cost descriptors.
func TestManyNodesFewDescriptors(t *testing.T) {
	const files, perFolder, budget = 20000, 50, 60
	before := openFiles(t)
	c := newClient(t, vm.Share{}, Options{Files: budget})
	path := func(i int) []string {
		d := i / perFolder
		return []string{fmt.Sprint("a", d%7), fmt.Sprint("b", d%60), fmt.Sprint("c", d), fmt.Sprint("f", i)}
	}
	for i := range files {
		p := filepath.Join(c.dir, filepath.Join(path(i)...))
		if i%perFolder == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mknod(p, unix.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	nodes := make([]uint64, files)
	folders := map[string]uint64{"": root}
	for i := range files {
		dir, at := uint64(root), ""
		names := path(i)
		for _, name := range names[:3] {
			at += "/" + name
			if folders[at] == 0 {
				folders[at] = must(c.lookup(dir, name))(t).NodeId
			}
			dir = folders[at]
		}
		nodes[i] = must(c.lookup(dir, names[3]))(t).NodeId
	}
	most := openFiles(t) - before
	s := stats(c.dev)
	if s.Nodes != files+len(folders) || s.Paths > budget/4 || most > budget {
		t.Errorf("%+v for %d files and %d folders, %d descriptors", s, files, len(folders), most)
	}
	// All still work, although their folders' descriptors were recycled.
	for i := 0; i < files; i += 37 {
		must(c.getattr(nodes[i]))(t)
		c.release(must(c.open(nodes[i], unix.O_RDWR))(t).Fh)
	}
	// Open files are bounded, and no user can take all of them.
	var fhs []uint64
	for user := range uint32(3) {
		c.as.Uid = user
		left, opened := budget-budget/4-len(fhs), 0
		for {
			o, err := c.open(nodes[len(fhs)], unix.O_RDONLY)
			if err != nil {
				want(t, "one open file too many", err, unix.ENFILE)
				break
			}
			fhs, opened = append(fhs, o.Fh), opened+1
		}
		if opened != (left+1)/2 {
			t.Errorf("user %d could open %d files of %d", user, opened, left)
		}
	}
	want(t, "create", second(c.create(root, "x")), unix.ENFILE)
	want(t, "open a folder", second(call[fuse.OpenOut](c, opOpenDir, root, &fuse.OpenIn{})), unix.ENFILE)
	for _, fh := range fhs {
		c.release(fh)
	}
	if opened := c.dev.cur.opened; len(opened) > 0 {
		t.Errorf("when all is closed, by users: %v", opened)
	}
	for _, n := range nodes {
		c.forget(n, 1000)
	}
	for _, n := range folders {
		c.forget(n, 1000)
	}
	if s := stats(c.dev); s != (counts{Nodes: 1}) {
		t.Errorf("after all was forgotten: %+v", s)
	}
	must(c.walk(path(files / 2)...))(t)
	c.dev.Close()
	if s := stats(c.dev); s != (counts{}) {
		t.Errorf("after Close: %+v", s)
	}
	timetest.Eventually(t, "all files are closed", func() bool { return openFiles(t) <= before })
}

// A forgotten parent must be kept as long as a child needs it.
func TestForgottenParent(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("a/b/f", "x")
	a, b, f := must(c.walk("a"))(t), must(c.walk("a", "b"))(t), must(c.walk("a", "b", "f"))(t)
	c.forget(a.NodeId, 3)
	c.forget(b.NodeId, 2)
	must(c.getattr(f.NodeId))(t)
	if s := stats(c.dev); s.Nodes != 4 {
		t.Errorf("%+v", s)
	}
	c.forget(f.NodeId, 1)
	if s := stats(c.dev); s.Nodes != 1 {
		t.Errorf("%+v", s)
	}
	want(t, "a forgotten node", second(c.getattr(f.NodeId)), unix.ESTALE)
}

func TestDepth(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	at := uint64(root)
	for i := range 2 * maxDepth {
		e, err := c.mkdir(at, "d")
		if err != nil {
			want(t, "too deep", err, unix.ENAMETOOLONG)
			if i < maxDepth-1 {
				t.Errorf("only %d folders deep", i)
			}
			return
		}
		at = e.NodeId
	}
	t.Error("there is no limit")
}

func TestPanicFailsOneRequest(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.dev.mu.Lock()
	good := c.dev.cur
	c.dev.cur = &session{} // panics
	c.dev.mu.Unlock()
	h := fuse.InHeader{Opcode: uint32(opStatFS), Unique: 99, NodeId: root}
	reply := make([]byte, 200)
	n := c.dev.Handle(Request{Out: [][]byte{bytesOf(&h)}, OutLen: inHeaderSize, In: [][]byte{reply}, InLen: len(reply)})
	if expect := append([]byte{16, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff, 99}, make([]byte, 7)...); !bytes.Equal(reply[:n], expect) {
		t.Errorf("the answer is %v, not EIO", reply[:n])
	}
	c.dev.mu.Lock()
	c.dev.cur = good
	c.dev.mu.Unlock()
	c.statfs(root)
}

func TestShortRequests(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	for op := range opcode(120) {
		o := op.operation()
		fixed, ok := int(o.size), o.size > 0
		for _, size := range []int{inHeaderSize, fixed - 1} {
			if size < inHeaderSize || ok && size >= fixed {
				continue
			}
			_, err := c.request(op, root, make([]byte, size-inHeaderSize), 100)
			switch {
			case !ok:
				want(t, fmt.Sprint("operation ", op), err, unix.ENOSYS)
			case !o.silent:
				want(t, fmt.Sprint("operation ", op, ", too short"), err, unix.EIO)
			}
		}
	}
	want(t, "too long", second(c.request(opLookup, root, make([]byte, maxCopied), 200)), unix.EIO)
	want(t, "another protocol", second(c.request(opInit, 0, make([]byte, 24), 100)), unix.EPROTO)
	c.statfs(root)
}

// A request must not be served if the guest changes its header after the check.
func TestHeaderChanges(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	f := must(c.create(root, "f"))(t)
	want(t, "write", c.write(f.Fh, 0, []byte("text"), 0), nil)
	for _, op := range []opcode{opWrite, opRead, opGetAttr} {
		request := message(opSetAttr, f.NodeId, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE}})
		reply := make([]byte, 200)
		n := c.dev.serve(header{op: op, unique: 1}, [][]byte{request}, len(request), [][]byte{reply}, len(reply))
		if expect := []byte{16, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff}; n != outHeaderSize || !bytes.Equal(reply[:8], expect) {
			t.Errorf("operation %d that becomes another: %v", op, reply[:n])
		}
	}
	if a := must(c.getattr(f.NodeId))(t); a.Size != 4 {
		t.Errorf("the file has %d bytes", a.Size)
	}
}

// Nodes and handles must not survive a new mount.
func TestRemount(t *testing.T) {
	before := openFiles(t)
	c := newClient(t, vm.Share{}, Options{})
	f := must(c.create(root, "f"))(t)
	c.mount()
	want(t, "an old node", second(c.getattr(f.NodeId)), unix.ESTALE)
	want(t, "an old handle", second(c.read(f.Fh, 0, 10)), unix.EBADF)
	must(c.walk("f"))(t)
	c.dev.Unmount()
	want(t, "before it is mounted", second(c.lookup(root, "f")), unix.ENODEV)
	c.mount()
	must(c.walk("f"))(t)
	c.dev.Close()
	want(t, "when it is closed", second(c.lookup(root, "f")), unix.ENODEV)
	want(t, "mount when it is closed", second(c.request(opInit, 0, append([]byte{7, 0, 0, 0, 36, 0, 0, 0}, make([]byte, 56)...), 64)), unix.ENODEV)
	timetest.Eventually(t, "all files are closed", func() bool { return openFiles(t) <= before })
}

func TestNewErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), file} {
		if _, err := New(vm.Share{Path: path}, Options{}); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

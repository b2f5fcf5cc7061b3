//go:build linux

package fs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

// A guest that remembers every file costs no descriptor for them.
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
	s := c.dev.Stats()
	if s.Nodes != files+len(folders) || s.Folders > budget/4 || most > budget {
		t.Errorf("%+v for %d files and %d folders, %d descriptors", s, files, len(folders), most)
	}
	// All of them are still what they were, though their folders' descriptors
	// have long been recycled.
	for i := 0; i < files; i += 37 {
		must(c.getattr(nodes[i]))(t)
		c.release(must(c.open(nodes[i], unix.O_RDWR))(t).Fh)
	}
	// Open files are bounded as well.
	var fhs []uint64
	for {
		o, err := c.open(nodes[len(fhs)], unix.O_RDONLY)
		if err != nil {
			want(t, "one open file too many", err, unix.ENFILE)
			break
		}
		fhs = append(fhs, o.Fh)
	}
	if len(fhs) != budget-budget/4 {
		t.Errorf("%d files could be open", len(fhs))
	}
	want(t, "create", second(c.create(root, "x")), unix.ENFILE)
	want(t, "open a folder", second(call[fuse.OpenOut](c, opOpenDir, root, &fuse.OpenIn{})), unix.ENFILE)
	for _, fh := range fhs {
		c.release(fh)
	}
	for _, n := range nodes {
		c.forget(n, 1000)
	}
	for _, n := range folders {
		c.forget(n, 1000)
	}
	if s := c.dev.Stats(); s != (Stats{Nodes: 1}) {
		t.Errorf("after all was forgotten: %+v", s)
	}
	must(c.walk(path(files / 2)...))(t)
	c.dev.Close()
	if s := c.dev.Stats(); s != (Stats{}) {
		t.Errorf("after Close: %+v", s)
	}
	eventually(t, func() bool { return openFiles(t) <= before })
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
	}
	t.Error("it does not come true")
}

// A parent that the guest has forgotten is remembered as long as a child needs
// it, and no longer.
func TestForgottenParent(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("a/b/f", "x")
	a, b, f := must(c.walk("a"))(t), must(c.walk("a", "b"))(t), must(c.walk("a", "b", "f"))(t)
	c.forget(a.NodeId, 3)
	c.forget(b.NodeId, 2)
	must(c.getattr(f.NodeId))(t)
	if s := c.dev.Stats(); s.Nodes != 4 {
		t.Errorf("%+v", s)
	}
	c.forget(f.NodeId, 1)
	if s := c.dev.Stats(); s.Nodes != 1 {
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

// renameIn is the older rename, which Linux sends where there are no flags.
type renameIn struct {
	fuse.InHeader
	NewDir uint64
}

// A folder that the guest renames keeps working for who is in it, with all
// that is below.
func TestRenamedFolder(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("a/b/f", "x")
	c.host("z/f", "y")
	b, f := must(c.walk("a", "b"))(t), must(c.walk("a", "b", "f"))(t)
	z := must(c.walk("z"))(t)
	want(t, "rename", c.rename(root, "a", z.NodeId, "new", 0), nil)
	must(c.getattr(f.NodeId))(t)
	must(c.lookup(b.NodeId, "f"))(t)
	want(t, "exchange", c.rename(b.NodeId, "f", z.NodeId, "f", unix.RENAME_EXCHANGE), nil)
	fh := must(c.open(f.NodeId, unix.O_RDONLY))(t).Fh
	if text, err := c.read(fh, 0, 9); string(text) != "x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	_, err := call[none](c, opRename, root, &renameIn{NewDir: root}, "z", "y")
	want(t, "rename without flags", err, nil)
	want(t, "rename back", c.rename(root, "y", root, "z", 0), nil)
	want(t, "no replace", c.rename(root, "z", b.NodeId, "f", unix.RENAME_NOREPLACE), unix.EEXIST)
	want(t, "whiteout", c.rename(root, "z", root, "y", unix.RENAME_WHITEOUT), unix.EINVAL)
	want(t, "into itself", c.rename(root, "z", z.NodeId, "z", 0), unix.EINVAL)
}

// Entries come once each, from any position, while the folder changes.
func TestBigFolder(t *testing.T) {
	const files = 100000
	c := newClient(t, vm.Share{}, Options{})
	for i := range files {
		if err := unix.Mknod(filepath.Join(c.dir, fmt.Sprint(i)), unix.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	fh := must(call[fuse.OpenOut](c, opOpenDir, root, &fuse.OpenIn{}))(t).Fh
	seen := map[string]uint64{} // and the position after it
	read := func(off uint64, size int) []fuse.DirEntry {
		in := fuse.ReadIn{Fh: fh, Offset: off, Size: uint32(size)}
		es, err := fuse.ParseDirEntries(must(c.request(opReadDir, root, bytesOf(&in)[inHeaderSize:], size))(t))
		if err != nil {
			t.Fatal(err)
		}
		return es
	}
	for off, n := uint64(0), 0; ; n++ {
		es := read(off, 4096)
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			if seen[e.Name] != 0 {
				t.Fatalf("%s comes twice", e.Name)
			}
			seen[e.Name], off = e.Off, e.Off
		}
		if n == 100 { // what was read is removed, what comes is not touched
			for _, e := range es {
				_ = c.unlink(root, e.Name)
			}
		}
	}
	if len(seen) != files+2 {
		t.Errorf("%d entries", len(seen))
	}
	middle := seen["50000"]
	first := read(middle, 4096)
	if again := read(middle, 4096); !slices.Equal(names(first), names(again)) || len(first) == 0 || first[0].Name == "50000" {
		t.Errorf("from the middle: %v, then %v", names(first), names(again))
	}
	want(t, "a folder as a file", c.write(fh, 0, []byte("x"), 0), unix.EBADF)
}

func names(es []fuse.DirEntry) (s []string) {
	for _, e := range es {
		s = append(s, e.Name)
	}
	return s
}

func TestXAttrs(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("f", "x")
	f := must(c.walk("f"))(t)
	want(t, "symlink", c.symlink(root, "l", "f"), nil)
	link := must(c.walk("l"))(t)
	set := func(node uint64, name, value string, flags uint32) error {
		in := fuse.SetXAttrIn{Size: uint32(len(value)), Flags: flags}
		_, err := c.request(opSetXAttr, node, append(bytesOf(&in)[inHeaderSize:inHeaderSize+8], name+"\x00"+value...), 0)
		return err
	}
	get := func(op opcode, name string, size int) (string, error) {
		in := fuse.GetXAttrIn{Size: uint32(size)}
		body := bytesOf(&in)[inHeaderSize:]
		if name != "" {
			body = append(slices.Clone(body), name+"\x00"...)
		}
		b, err := c.request(op, f.NodeId, body, max(size, 8))
		return string(b), err
	}
	want(t, "set", set(f.NodeId, "user.a", "value", 0), nil)
	want(t, "set what is there", set(f.NodeId, "user.a", "value", unix.XATTR_CREATE), unix.EEXIST)
	want(t, "set what is not", set(f.NodeId, "user.b", "value", unix.XATTR_REPLACE), unix.ENODATA)
	want(t, "set of a link", set(link.NodeId, "user.a", "value", 0), unix.EPERM)
	for _, name := range []string{"security.capability", "trusted.x", "system.posix_acl_access", "user.", "user", "user." + strings.Repeat("n", 255)} {
		want(t, "set "+name, set(f.NodeId, name, "value", 0), unix.EOPNOTSUPP)
		want(t, "get "+name, second(get(opGetXAttr, name, 64)), unix.ENODATA)
		_, err := call[none, none](c, opRemoveXAttr, f.NodeId, nil, name)
		want(t, "remove "+name, err, unix.ENODATA)
	}
	// Of the host's other attributes nothing is told.
	_ = unix.Setxattr(filepath.Join(c.dir, "f"), "trusted.host", []byte("x"), 0)
	if list, err := get(opListXAttr, "", 100); list != "user.a\x00" || err != nil {
		t.Errorf("list: %q, %v", list, err)
	}
	want(t, "list in too little room", second(get(opListXAttr, "", 3)), unix.ERANGE)
	if v, err := get(opGetXAttr, "user.a", 100); v != "value" || err != nil {
		t.Errorf("get: %q, %v", v, err)
	}
	want(t, "get in too little room", second(get(opGetXAttr, "user.a", 3)), unix.ERANGE)
	if v, err := get(opGetXAttr, "user.a", 0); err != nil || v[0] != 5 {
		t.Errorf("size: %v, %v", []byte(v), err)
	}
	in := fuse.SetXAttrIn{Size: 1000}
	_, err := c.request(opSetXAttr, f.NodeId, append(bytesOf(&in)[inHeaderSize:inHeaderSize+8], "user.x\x00short"...), 0)
	want(t, "a size that is not there", err, unix.EINVAL)
	_, err = call[none, none](c, opRemoveXAttr, f.NodeId, nil, "user.a")
	want(t, "remove", err, nil)
}

// O_APPEND counts as the WRITE says it, and the host's own growth is not
// written over.
func TestAppend(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("log", "one\n")
	n := must(c.walk("log"))(t)
	fh := must(c.open(n.NodeId, unix.O_WRONLY|unix.O_APPEND))(t).Fh
	c.host("log", "one\ntwo\n")
	want(t, "append", c.write(fh, 4, []byte("three\n"), unix.O_WRONLY|unix.O_APPEND), nil)
	want(t, "write", c.write(fh, 0, []byte("ONE"), unix.O_WRONLY), nil)
	if b, _ := os.ReadFile(filepath.Join(c.dir, "log")); string(b) != "ONE\ntwo\nthree\n" {
		t.Errorf("%q", b)
	}
}

// Pages stay cached from one open to the next as long as nobody changed the
// file, and not when the change may hide in a clock tick.
func TestKeepCache(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("f", "text")
	n := must(c.walk("f"))(t)
	keeps := func() bool {
		o := must(c.open(n.NodeId, unix.O_RDONLY))(t)
		c.release(o.Fh)
		return o.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0
	}
	for range 2 {
		if keeps() {
			t.Error("kept though the file was just written")
		}
	}
	unix.Nanosleep(&unix.Timespec{Nsec: 2 * settled}, nil)
	if keeps(); !keeps() {
		t.Error("not kept though nothing changed")
	}
	c.host("f", "TEXT")
	if keeps() {
		t.Error("kept though the host wrote")
	}
}

func TestPanicCostsOneRequest(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.dev.mu.Lock()
	good := c.dev.cur
	c.dev.cur = &session{} // has nothing to serve with
	c.dev.mu.Unlock()
	h := fuse.InHeader{Opcode: uint32(opStatFS), Unique: 99, NodeId: root}
	reply := make([]byte, 200)
	chain := &vhostuser.Chain{Out: [][]byte{bytesOf(&h)}, OutLen: inHeaderSize, In: [][]byte{reply}, InLen: len(reply)}
	n := c.dev.handle(readHeader(chain.Out), chain)
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
		o, ok := operationOf(op)
		for _, size := range []int{inHeaderSize, o.size - 1} {
			if size < inHeaderSize || ok && size >= o.size {
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

// A new mount knows nothing of the old one, whose requests end as they began.
func TestRemount(t *testing.T) {
	before := openFiles(t)
	c := newClient(t, vm.Share{}, Options{})
	f := must(c.create(root, "f"))(t)
	c.mount()
	want(t, "an old node", second(c.getattr(f.NodeId)), unix.ESTALE)
	want(t, "an old handle", second(c.read(f.Fh, 0, 10)), unix.EBADF)
	must(c.walk("f"))(t)
	c.dev.Reset()
	want(t, "before it is mounted", second(c.lookup(root, "f")), unix.ENODEV)
	c.mount()
	must(c.walk("f"))(t)
	c.dev.Close()
	want(t, "when it is closed", second(c.lookup(root, "f")), unix.ENODEV)
	want(t, "mount when it is closed", second(c.request(opInit, 0, append([]byte{7, 0, 0, 0, 36, 0, 0, 0}, make([]byte, 56)...), 64)), unix.ENODEV)
	eventually(t, func() bool { return openFiles(t) <= before })
}

func TestNewErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, shares := range map[fault.Kind][]vm.Share{
		fault.NotFound:    {{Path: filepath.Join(dir, "missing")}, {Path: file}},
		fault.InvalidArgs: {{Path: dir, Ownership: "nobody"}, {Path: dir, MinFree: -1}},
	} {
		for _, s := range shares {
			if _, err := New(s, Options{}); fault.KindOf(err) != kind || fault.AdviceOf(err) == "" {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}

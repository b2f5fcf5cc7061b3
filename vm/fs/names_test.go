//go:build linux

package fs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/vm"
)

// renameIn is RENAME, which Linux sends without flags.
type renameIn struct {
	fuse.InHeader
	NewDir uint64
}

// Nodes below a renamed folder must still work.
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

// A node that was replaced or removed must still open as the same file.
func TestOpenReplaced(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("f", "old")
	c.host("g", "new")
	c.host("d/x", "x")
	old, dir := must(c.walk("f"))(t), must(c.walk("d"))(t)
	want(t, "replace", c.rename(root, "g", root, "f", 0), nil)
	read := func(node uint64) string {
		t.Helper()
		o := must(c.open(node, unix.O_RDWR))(t)
		defer c.release(o.Fh)
		return string(must(c.read(o.Fh, 0, 10))(t))
	}
	if text := read(old.NodeId); text != "old" {
		t.Errorf("opened %q", text)
	}
	if a := must(c.getattr(old.NodeId))(t); a.Nlink != 0 || a.Size != 3 {
		t.Errorf("%+v", a)
	}
	fresh := must(c.walk("f"))(t)
	if text := read(fresh.NodeId); text != "new" {
		t.Errorf("its name opens %q", text)
	}
	want(t, "truncate", second(c.setattr(old.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE})), nil)
	want(t, "second name", c.link(fresh.NodeId, root, "again"), nil)
	want(t, "unlink", c.unlink(root, "again"), nil)
	want(t, "unlink", c.unlink(root, "f"), nil)
	if text := read(fresh.NodeId); text != "new" {
		t.Errorf("removed, it opens %q", text)
	}
	want(t, "unlink", c.unlink(dir.NodeId, "x"), nil)
	want(t, "rmdir", c.rmdir(root, "d"), nil)
	want(t, "attributes of a removed folder", second(c.getattr(dir.NodeId)), nil)
	want(t, "make something in it", second(c.mkdir(dir.NodeId, "x")), unix.ENOENT)
	c.forget(old.NodeId, 9)
	c.forget(fresh.NodeId, 9)
	c.forget(dir.NodeId, 9)
	if s := stats(c.dev); s.Paths != 0 || s.Open != 0 {
		t.Errorf("descriptors are held for what was forgotten: %+v", s)
	}
}

// Each entry must be listed once, from any position, while the folder changes.
func TestBigFolder(t *testing.T) {
	const files = 100000
	c := newClient(t, vm.Share{}, Options{})
	for i := range files {
		if err := unix.Mknod(filepath.Join(c.dir, fmt.Sprint(i)), unix.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	fh := must(call[fuse.OpenOut](c, opOpenDir, root, &fuse.OpenIn{}))(t).Fh
	seen := map[string]uint64{} // the position after each name
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
		if n == 100 { // remove only entries that were read
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

// Without times of birth, a new link can look like an old one: the guest must not cache targets.
func TestSymlinkCaching(t *testing.T) {
	const cacheSymlinks = 1 << 23 // FUSE_CACHE_SYMLINKS
	c := newClient(t, vm.Share{}, Options{})
	for born, want := range map[int64]uint32{0: 0, 1: cacheSymlinks} {
		c.dev.rules.root.born = born
		out, err := call[fuse.InitOut](c, opInit, 0, &fuse.InitIn{Major: 7, Minor: 36, Flags: math.MaxUint32})
		if err != nil || out.Flags&cacheSymlinks != want {
			t.Errorf("root born at %d: flags %#x, %v", born, out.Flags, err)
		}
	}
}

// Files of two file systems with the same inode number must have different ones in the guest.
func TestMountsInShare(t *testing.T) {
	smalldisk.Run(t, "8m", func(d *smalldisk.Disk) {
		var hosts, shown []uint64
		c := newClient(t, vm.Share{Path: d.Dir}, Options{})
		for _, name := range []string{"a", "b"} {
			c.host(name+"/x", "")
			at := filepath.Join(d.Dir, name)
			if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m"); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
			c.host(name+"/f", "")
			var s unix.Stat_t
			if err := unix.Stat(filepath.Join(at, "f"), &s); err != nil {
				t.Fatal(err)
			}
			folder := must(c.walk(name))(t)
			f := must(c.lookup(folder.NodeId, "f"))(t)
			hosts, shown = append(hosts, s.Ino), append(shown, f.Ino)
			listed := c.entries(folder.NodeId)
			if i := slices.IndexFunc(listed, func(e fuse.DirEntry) bool { return e.Name == "f" }); i < 0 || listed[i].Ino != f.Ino {
				t.Errorf("listed as %+v, looked up as %d", listed, f.Ino)
			}
		}
		if shown[0] == shown[1] { // equal on the host since Linux 5.9
			t.Errorf("%d on the host is %d for the guest", hosts, shown)
		}
		c.host("g", "")
		var s unix.Stat_t
		if err := unix.Stat(filepath.Join(d.Dir, "g"), &s); err != nil || must(c.walk("g"))(t).Ino != s.Ino {
			t.Errorf("the share's own numbers are others: %v", err)
		}
	})
}

// What is served is the folder that was opened, whatever has its path by now.
func TestOpenedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	for _, step := range []error{os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	opened, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for _, step := range []error{os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "other"), nil, 0o600)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	c := newClient(t, vm.Share{Path: dir}, Options{Root: opened})
	want(t, "the opened folder", second(c.walk("mine")), nil)
	want(t, "the one at its path", second(c.walk("other")), unix.ENOENT)
}

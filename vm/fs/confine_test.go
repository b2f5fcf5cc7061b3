//go:build linux

package fs

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

const root = fuse.FUSE_ROOT_ID

// outside is a folder beside a share, which must not change.
type outside struct{ dir, secret string }

const secret = "nobody in the guest may see or change this"

func newOutside(t testing.TB) outside {
	dir := t.TempDir()
	o := outside{dir, filepath.Join(dir, "secret")}
	if err := os.WriteFile(o.secret, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o outside) check(t testing.TB) {
	t.Helper()
	es, err := os.ReadDir(o.dir)
	b, err2 := os.ReadFile(o.secret)
	if err != nil || err2 != nil || len(es) != 1 || string(b) != secret {
		t.Errorf("outside the share: %v %q (%v, %v)", es, b, err, err2)
	}
}

func TestInvalidNames(t *testing.T) {
	out := newOutside(t)
	share := filepath.Join(out.dir, "share")
	if err := os.Mkdir(share, 0o755); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, vm.Share{Path: share}, Options{})
	c.host("dir/file", "x")
	file := must(c.walk("dir", "file"))(t)
	dir := must(c.walk("dir"))(t)
	for _, name := range []string{"", ".", "..", "../secret", "/etc", "a/b", "../../" + out.secret, out.secret, "dir/file", strings.Repeat("n", 256)} {
		expect := error(unix.EINVAL)
		if len(name) > maxName {
			expect = unix.ENAMETOOLONG
		}
		for what, err := range map[string]error{
			"lookup":      second(c.lookup(root, name)),
			"mkdir":       second(c.mkdir(root, name)),
			"create":      second(c.create(root, name)),
			"unlink":      c.unlink(root, name),
			"rmdir":       c.rmdir(root, name),
			"rename from": c.rename(root, name, root, "new", 0),
			"rename to":   c.rename(root, "dir", root, name, 0),
			"link":        c.link(file.NodeId, root, name),
			"symlink":     c.symlink(root, name, "target"),
		} {
			want(t, what+" "+name, err, expect)
		}
	}
	want(t, "a folder that is a file", second(c.lookup(file.NodeId, "x")), unix.ENOTDIR)
	want(t, "an unknown node", second(c.lookup(dir.NodeId+1000, "x")), unix.ESTALE)
	if err := os.RemoveAll(share); err != nil {
		t.Fatal(err)
	}
	out.check(t)
}

func second[T any](_ T, err error) error { return err }

// The guest opens d/secret while the host keeps replacing the folder d by a link to a folder outside.
func TestSwappedLinks(t *testing.T) {
	out := newOutside(t)
	c := newClient(t, vm.Share{}, Options{})
	c.host("real/secret", "harmless")
	if err := os.Symlink(out.dir, filepath.Join(c.dir, "link")); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(c.dir, name) }
	if err := os.Rename(path("real"), path("d")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapper, guests sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// d is the folder, then the link, then the folder again.
			if err := unix.Renameat2(unix.AT_FDCWD, path("d"), unix.AT_FDCWD, path("link"), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var seen [4]int
	for g := range seen {
		guests.Go(func() {
			for began := time.Now(); time.Since(began) < 2*time.Second || seen[g] == 0 && time.Since(began) < timetest.Limit; {
				d, err := c.lookup(root, "d")
				if err != nil {
					t.Error(err)
					return
				}
				// Make the device check the folder again.
				if n, _ := c.dev.cur.node(d.NodeId); n != nil {
					c.dev.cur.mu.Lock()
					n.checked = time.Time{}
					c.dev.cur.mu.Unlock()
				}
				_, _ = c.create(d.NodeId, "planted")
				_ = c.symlink(d.NodeId, "planted-link", "x")
				_ = c.unlink(d.NodeId, "planted")
				_ = c.rename(d.NodeId, "planted-link", d.NodeId, "planted", 0)
				f, err := c.lookup(d.NodeId, "secret")
				if err != nil {
					continue
				}
				o, err := c.open(f.NodeId, unix.O_RDWR)
				if err != nil {
					continue
				}
				if b, err := c.read(o.Fh, 0, 100); err != nil || string(b) != "harmless" {
					t.Errorf("the guest reads %q, %v", b, err)
				}
				c.release(o.Fh)
				seen[g]++
			}
		})
	}
	guests.Wait()
	close(stop)
	swapper.Wait()
	out.check(t)
	if slices.Max(seen[:]) == 0 {
		t.Error("the guest never saw the file at all")
	}
}

func TestFolderMovedOut(t *testing.T) {
	out := newOutside(t)
	c := newClient(t, vm.Share{}, Options{})
	c.host("a/b/file", "x")
	b := must(c.walk("a", "b"))(t)
	file := must(c.walk("a", "b", "file"))(t)
	elsewhere := filepath.Join(filepath.Dir(c.dir), "moved")
	if err := os.Rename(filepath.Join(c.dir, "a"), elsewhere); err != nil {
		t.Fatal(err)
	}
	time.Sleep(fresh + 100*time.Millisecond)
	want(t, "look up below", second(c.lookup(b.NodeId, "file")), unix.ESTALE)
	want(t, "make below", second(c.create(b.NodeId, "new")), unix.ESTALE)
	want(t, "open below", second(c.open(file.NodeId, unix.O_RDONLY)), unix.ESTALE)
	want(t, "list", second(call[fuse.OpenOut](c, opOpenDir, b.NodeId, &fuse.OpenIn{})), unix.ESTALE)
	// Moved back to another place, the same nodes work after a look-up.
	if err := os.Rename(elsewhere, filepath.Join(c.dir, "z")); err != nil {
		t.Fatal(err)
	}
	if again := must(c.walk("z", "b", "file"))(t); again.NodeId != file.NodeId {
		t.Errorf("the file is node %d, was %d", again.NodeId, file.NodeId)
	}
	must(c.open(file.NodeId, unix.O_RDONLY))(t)
	out.check(t)
}

func TestKindsOfFiles(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("file", "x")
	if err := unix.Mkfifo(filepath.Join(c.dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(c.dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"pipe", "socket"} {
		want(t, "look up "+name, second(c.lookup(root, name)), unix.ENOENT)
	}
	if names := c.list(root); len(names) != 1 || names[0] != "file" {
		t.Errorf("listed: %q", names)
	}
	for _, kind := range []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK} {
		_, err := call[fuse.EntryOut](c, opMknod, root, &fuse.MknodIn{Mode: kind | 0o666, Rdev: 0x103}, "special")
		want(t, "mknod", err, unix.EPERM)
	}
	must(call[fuse.EntryOut](c, opMknod, root, &fuse.MknodIn{Mode: unix.S_IFREG | 0o640}, "regular"))(t)
	// The file is now a pipe: opening it must fail and not block.
	file := must(c.walk("file"))(t)
	if err := os.Rename(filepath.Join(c.dir, "pipe"), filepath.Join(c.dir, "file")); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []uint32{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		if _, err := c.open(file.NodeId, flags); err == nil {
			t.Errorf("a pipe was opened with flags %d", flags)
		}
	}
	if _, err := call[fuse.OpenOut](c, opTmpfile, root, &fuse.CreateIn{Mode: 0o600}, "/"); err != unix.ENOSYS {
		t.Errorf("O_TMPFILE: %v", err)
	}
}

// opTmpfile is not served.
const opTmpfile opcode = 51

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, vm.Share{Path: dir, ReadOnly: true}, Options{})
	file := must(c.walk("file"))(t)
	fh := must(c.open(file.NodeId, unix.O_RDONLY))(t).Fh
	if b, err := c.read(fh, 0, 10); string(b) != "text" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	_, mknod := call[fuse.EntryOut](c, opMknod, root, &fuse.MknodIn{Mode: unix.S_IFREG}, "x")
	_, copyRange := call[fuse.WriteOut](c, opCopyFileRange, file.NodeId, &fuse.CopyFileRangeIn{FhIn: fh, FhOut: fh, Len: 1})
	_, rename1 := c.request(opRename, root, append(make([]byte, 8), "file\x00new\x00"...), 0)
	for what, err := range map[string]error{
		"open w":     second(c.open(file.NodeId, unix.O_WRONLY)),
		"open rw":    second(c.open(file.NodeId, unix.O_RDWR)),
		"open trunc": second(c.open(file.NodeId, unix.O_RDONLY|unix.O_TRUNC)),
		"create":     second(c.create(root, "x")),
		"mkdir":      second(c.mkdir(root, "x")),
		"mknod":      mknod,
		"symlink":    c.symlink(root, "x", "y"),
		"link":       c.link(file.NodeId, root, "x"),
		"unlink":     c.unlink(root, "file"),
		"rmdir":      c.rmdir(root, "file"),
		"rename":     rename1,
		"rename2":    c.rename(root, "file", root, "x", 0),
		"write":      c.write(fh, 0, []byte("changed"), 0),
		"fallocate":  c.fallocate(fh, 0, 100, 0),
		"setattr":    second(c.setattr(file.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: 0o600})),
		"copy":       copyRange,
	} {
		want(t, what, err, unix.EROFS)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "text" || err != nil {
		t.Errorf("the host reads %q, %v", b, err)
	}
}

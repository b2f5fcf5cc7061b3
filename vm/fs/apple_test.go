//go:build linux

package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs/appletest"
)

// TestApple checks that a share can have the rules of Apple's server, which the macOS driver's
// tests run over.
func TestApple(t *testing.T) {
	c := newClient(t, vm.Share{Ownership: vm.OwnershipAsker}, Options{Wrap: appletest.Wrap})
	if err := os.WriteFile(filepath.Join(c.dir, "File"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var file fuse.EntryOut
	for _, uid := range []uint32{1000, 1001} { // each is shown as the owner, and the guest caches that
		c.as.Uid = uid
		var err error
		if file, err = c.lookup(fuse.FUSE_ROOT_ID, "File"); err != nil || file.Uid != uid || file.AttrTimeout() != time.Second {
			t.Errorf("user %d: the owner is %d for %v, %v", uid, file.Uid, file.AttrTimeout(), err)
		}
	}
	if other, err := c.lookup(fuse.FUSE_ROOT_ID, "fILE"); err != nil || other.NodeId != file.NodeId {
		t.Errorf("the name in other case is node %d, not %d (%v)", other.NodeId, file.NodeId, err)
	}
	chown := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: fuse.FATTR_UID, Owner: fuse.Owner{Uid: 7}}}
	if out, err := call[fuse.AttrOut](c, opSetAttr, file.NodeId, &chown); err != nil || out.Uid != 1001 {
		t.Errorf("chown: owner %d, %v", out.Uid, err)
	}
	if _, err := call[fuse.EntryOut](c, opMknod, fuse.FUSE_ROOT_ID, &fuse.MknodIn{Mode: unix.S_IFIFO | 0o600}, "fifo"); err != unix.EOPNOTSUPP {
		t.Errorf("mkfifo: %v", err)
	}
	linked, err := call[fuse.EntryOut](c, opLink, fuse.FUSE_ROOT_ID, &fuse.LinkIn{Oldnodeid: file.NodeId}, "Other")
	if err != nil {
		t.Fatal(err)
	}
	if now, err := c.lookup(fuse.FUSE_ROOT_ID, "File"); err != nil || now.Ino == file.Ino || now.Ino != linked.Ino {
		t.Errorf("after it got another name with inode %d, the file's is %d, as before it %d (%v)", linked.Ino, now.Ino, file.Ino, err)
	}
	evicted, err := c.create(fuse.FUSE_ROOT_ID, "cloud"+appletest.Evicted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call[fuse.AttrOut](c, opRead, evicted.NodeId, &fuse.ReadIn{Fh: evicted.Fh, Size: 1}); err != unix.EDEADLK {
		t.Errorf("a file that is only in iCloud: %v", err)
	}
	c.as.Uid = 0
	for mode, want := range map[uint32]error{0o444: unix.EACCES, 0: unix.EACCES, 0o600: nil} {
		chmod := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: mode}}
		if _, err := call[fuse.AttrOut](c, opSetAttr, file.NodeId, &chmod); err != nil {
			t.Fatal(err)
		}
		if _, err := call[fuse.OpenOut](c, opOpen, file.NodeId, &fuse.OpenIn{Flags: unix.O_RDWR}); err != want {
			t.Errorf("root opens a file of mode %#o: %v, want %v", mode, err, want)
		}
	}
}

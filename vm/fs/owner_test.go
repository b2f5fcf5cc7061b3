//go:build linux

package fs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// subtrees returns a set of subtrees.
func subtrees(t testing.TB, list ...vm.Subtree) *vm.Subtrees {
	t.Helper()
	set := &vm.Subtrees{}
	for _, s := range list {
		if err := set.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

func TestSubtreeOwners(t *testing.T) {
	set := subtrees(t, vm.Subtree{Path: "agents/alice", UID: 2001, GID: 2002}, vm.Subtree{Path: "agents/alice/x/inner", UID: 3001, GID: 3002})
	c := newClient(t, vm.Share{Subtrees: set}, Options{})
	for _, f := range []string{"top", "agents/alice/f", "agents/alice/x/f", "agents/alice/x/inner/deep/f", "agents/bob/f"} {
		c.host(f, "x")
	}
	c.as = fuse.Caller{Owner: fuse.Owner{Uid: 77, Gid: 78}}
	owner := func(names ...string) fuse.Owner { return must(c.walk(names...))(t).Owner }
	alice, inner, bob := fuse.Owner{Uid: 2001, Gid: 2002}, fuse.Owner{Uid: 3001, Gid: 3002}, fuse.Owner{Uid: 4001, Gid: 4001}
	check := func(expect fuse.Owner, names ...string) {
		t.Helper()
		if got := owner(names...); got != expect {
			t.Errorf("%v belongs to %v, want %v", names, got, expect)
		}
	}
	check(fuse.Owner{}, "top")
	check(fuse.Owner{}, "agents")
	check(alice, "agents", "alice")
	check(alice, "agents", "alice", "x", "f")
	check(inner, "agents", "alice", "x", "inner", "deep", "f")
	check(fuse.Owner{}, "agents", "bob", "f")

	// A change of the rules applies to known nodes.
	known := must(c.walk("agents", "bob", "f"))(t)
	if err := set.Set(vm.Subtree{Path: "agents/bob", UID: 4001, GID: 4001}); err != nil {
		t.Fatal(err)
	}
	if a := must(c.getattr(known.NodeId))(t); a.Owner != bob {
		t.Errorf("after the change: %v", a.Owner)
	}
	// A moved folder and its files get the new owner.
	x, deep := must(c.walk("agents", "alice", "x"))(t), must(c.walk("agents", "alice", "f"))(t)
	home, other := must(c.walk("agents", "alice"))(t), must(c.walk("agents", "bob"))(t)
	want(t, "move a folder with a subtree in it", c.rename(home.NodeId, "x", other.NodeId, "x", 0), unix.EBUSY)
	want(t, "move a subtree", c.rename(x.NodeId, "inner", x.NodeId, "renamed", 0), unix.EBUSY)
	want(t, "move onto a subtree", c.rename(x.NodeId, "f", x.NodeId, "inner", 0), unix.EBUSY)
	want(t, "remove a subtree", c.rmdir(x.NodeId, "inner"), unix.EBUSY)
	want(t, "link to another owner", c.link(deep.NodeId, other.NodeId, "mine"), unix.EXDEV)
	want(t, "link", c.link(deep.NodeId, home.NodeId, "f2"), nil)
	c.host("agents/alice/dir/sub/f", "x")
	moved := must(c.walk("agents", "alice", "dir", "sub", "f"))(t)
	want(t, "move a folder to another owner", c.rename(home.NodeId, "dir", other.NodeId, "dir", 0), nil)
	if a := must(c.getattr(moved.NodeId))(t); a.Owner != bob {
		t.Errorf("moved: %v", a.Owner)
	}
	set.Remove("agents/alice/x/inner")
	check(alice, "agents", "alice", "x", "inner", "deep", "f")
	want(t, "remove what is no subtree any more", c.rmdir(x.NodeId, "inner"), unix.ENOTEMPTY)
}

func TestAskerOwns(t *testing.T) {
	c := newClient(t, vm.Share{Ownership: vm.OwnershipAsker, Subtrees: subtrees(t, vm.Subtree{Path: "a", UID: 5})}, Options{})
	c.host("a/f", "x")
	for _, uid := range []uint32{0, 1000, 1001} {
		c.as.Uid, c.as.Gid = uid, uid+1
		e := must(c.walk("a", "f"))(t)
		if e.Owner != c.as.Owner || e.EntryValid != 0 || e.EntryValidNsec != 0 || e.AttrValid != 0 {
			t.Errorf("%d sees %v, for %d.%09d s", uid, e.Owner, e.EntryValid, e.EntryValidNsec)
		}
		want(t, "chown to oneself", second(c.setattr(e.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_UID | fuse.FATTR_GID, Owner: c.as.Owner})), nil)
		want(t, "chown to another", second(c.setattr(e.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_UID, Owner: fuse.Owner{Uid: 9}})), unix.EPERM)
	}
	if _, err := c.lookup(root, "missing"); err != unix.ENOENT {
		t.Error(err)
	}
}

// All users must have the owner's permissions, and no chmod may let others write on the host.
func TestEverybody(t *testing.T) {
	c := newClient(t, vm.Share{Ownership: vm.OwnershipEverybody}, Options{})
	c.as.Uid = 1000
	made := must(call[fuse.CreateOut](c, opCreate, root, &fuse.CreateIn{Flags: unix.O_RDWR, Mode: 0o640}, "f"))(t)
	c.as.Uid = 1001
	for _, step := range []struct{ set, shown, host uint32 }{
		{0, 0o666, 0o640},
		{0o777, 0o777, 0o755}, // chmod +x of the mode shown
		{0o700, 0o777, 0o700},
		{0o555, 0o555, 0o555},
		{0o644, 0o666, 0o644},
		{0o1666, 0o666, 0o1644},
		{0o666, 0o666, 0o644},
		{0o600, 0o666, 0o600},
	} {
		if step.set != 0 {
			must(c.setattr(made.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: step.set}))(t)
		}
		e := must(c.walk("f"))(t)
		info, err := os.Stat(filepath.Join(c.dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		host := uint32(info.Sys().(*syscall.Stat_t).Mode) & 0o7777
		if e.Mode&0o7777 != step.shown || host != step.host || e.Uid != 1001 || e.EntryValid != 0 {
			t.Errorf("%o: shown %o of %d, on the host %o; want %o, %o", step.set, e.Mode&0o7777, e.Uid, host, step.shown, step.host)
		}
	}
}

// The same for folders, including sticky ones.
func TestEverybodyFolder(t *testing.T) {
	c := newClient(t, vm.Share{Ownership: vm.OwnershipEverybody}, Options{})
	c.as.Uid = 1000
	dir := must(call[fuse.EntryOut](c, opMkdir, root, &fuse.MkdirIn{Mode: 0o1777}, "dir"))(t)
	must(call[fuse.CreateOut](c, opCreate, dir.NodeId, &fuse.CreateIn{Flags: unix.O_RDWR, Mode: 0o666}, "f"))(t)
	for name, mode := range map[string]os.FileMode{"dir": 0o755 | os.ModeDir | os.ModeSticky, "dir/f": 0o644} {
		if info, err := os.Stat(filepath.Join(c.dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s is %v on the host, %v", name, info.Mode(), err)
		}
	}
	c.as.Uid = 1001
	if e := must(c.walk("dir"))(t); e.Mode&0o7777 != 0o777 || e.Uid != 1001 {
		t.Errorf("shown %o of %d", e.Mode&0o7777, e.Uid)
	}
}

func TestOwnersAndModesOnTheHost(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.as = fuse.Caller{Owner: fuse.Owner{Uid: 1000, Gid: 1000}}
	made := must(call[fuse.CreateOut](c, opCreate, root, &fuse.CreateIn{Flags: unix.O_RDWR, Mode: 0o6777}, "tool"))(t)
	dir := must(call[fuse.EntryOut](c, opMkdir, root, &fuse.MkdirIn{Mode: 0o7777}, "dir"))(t)
	chmod := func(node uint64, mode uint32) {
		t.Helper()
		out := must(c.setattr(node, fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: mode}))(t)
		if out.Mode&0o7777 != mode&modeBits {
			t.Errorf("mode %o became %o", mode, out.Mode&0o7777)
		}
	}
	onHost := func(name string, mode uint32) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(c.dir, name), &st); err != nil || st.Mode&0o7777 != mode || int(st.Uid) != os.Getuid() {
			t.Errorf("%s on the host: %o of %d, %v; want %o", name, st.Mode&0o7777, st.Uid, err, mode)
		}
	}
	onHost("tool", 0o777)
	onHost("dir", 0o1777)
	chmod(made.NodeId, 0o4755)
	chmod(dir.NodeId, 0o2775)
	onHost("tool", 0o755)
	onHost("dir", 0o775)
	for _, in := range []fuse.SetAttrInCommon{
		{Valid: fuse.FATTR_UID, Owner: fuse.Owner{Uid: 1000}},
		{Valid: fuse.FATTR_GID, Owner: fuse.Owner{Gid: 1000}},
		{Valid: fuse.FATTR_UID | fuse.FATTR_MODE, Owner: fuse.Owner{Uid: 1000}, Mode: 0o777},
	} {
		want(t, "chown", second(c.setattr(made.NodeId, in)), unix.EPERM)
	}
	want(t, "chown to the owner shown", second(c.setattr(made.NodeId, fuse.SetAttrInCommon{Valid: fuse.FATTR_UID | fuse.FATTR_GID})), nil)
	onHost("tool", 0o755)
	// The guest does not see set-user-ID bits of the host.
	c.host("suid", "x")
	if err := os.Chmod(filepath.Join(c.dir, "suid"), 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if e := must(c.walk("suid"))(t); e.Mode&0o7777 != 0o755 {
		t.Errorf("shown as %o", e.Mode)
	}
}

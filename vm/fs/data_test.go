//go:build linux

package fs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

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
	// Other attributes of the host are hidden.
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

// Appending follows the flags of each WRITE and must not overwrite what the host has appended.
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

// Pages may stay cached between opens if the file has not changed and its time stamp is old enough to
// show a change.
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

//go:build linux

package fs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// The guest's kernel asks once for extended attributes, and never again.
func TestNoXAttrs(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("f", "x")
	f := must(c.walk("f"))(t)
	const getXAttr opcode = 22
	_, err := c.request(getXAttr, f.NodeId, append(make([]byte, 8), "user.x\x00"...), 100)
	want(t, "get", err, unix.ENOSYS)
}

// Linux forgets as many nodes in one message as it has to forget then.
func TestForgetMany(t *testing.T) {
	c := newClient(t, vm.Share{}, Options{})
	c.host("f", "x")
	f := must(c.walk("f"))(t)
	const others = 50_000
	list := make([]byte, 8+16*(others+1)) // a count, and each node with its look-ups
	binary.LittleEndian.PutUint32(list, others+1)
	last := list[len(list)-16:]
	binary.LittleEndian.PutUint64(last, f.NodeId)
	binary.LittleEndian.PutUint64(last[8:], 1)
	_, _ = c.request(opBatchForget, 0, list, 0) // without a reply
	_, err := c.getattr(f.NodeId)
	want(t, "a forgotten node", err, unix.ESTALE)
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
	timetest.Eventually(t, "not kept when the file was just written", func() bool {
		c.host("f", "text")
		if keeps() {
			t.Error("kept though the host wrote")
		}
		return !keeps() // unless the time stamp was old enough by then
	})
	unix.Nanosleep(&unix.Timespec{Nsec: 2 * settled}, nil)
	if keeps(); !keeps() {
		t.Error("not kept though nothing changed")
	}
	c.host("f", "TEXT")
	if keeps() {
		t.Error("kept though the host wrote")
	}
}

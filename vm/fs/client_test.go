//go:build linux

package fs

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// client sends FUSE requests to a device, valid or not. Several goroutines may use it.
type client struct {
	t   testing.TB
	dev *Server
	dir string      // the share on the host
	as  fuse.Caller // of requests
	// stream carries the requests, unless it is nil.
	stream *stream
}

// newClient shares a new folder and mounts it.
func newClient(t testing.TB, share vm.Share, opts Options) *client {
	t.Helper()
	if share.Path == "" {
		share.Path = t.TempDir()
	}
	d, err := New(share, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c := &client{t: t, dev: d, dir: share.Path}
	if strings.HasPrefix(t.Name(), "TestOverStream/") {
		c.stream = newStream(t, d)
	}
	c.mount()
	return c
}

func (c *client) mount() {
	c.t.Helper()
	in := fuse.InitIn{Major: 7, Minor: 36, MaxReadAhead: 128 << 10, Flags: math.MaxUint32}
	if _, err := c.request(opInit, fuse.FUSE_ROOT_ID, bytesOf(&in)[inHeaderSize:], 64); err != nil {
		c.t.Fatal(err)
	}
}

// bytesOf returns the memory of a struct.
func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// raw sends a request with its header and returns the reply with its header.
func (c *client) raw(request []byte, space int) []byte {
	if c.stream != nil {
		reply := c.stream.raw(c.t, request)
		return reply[:min(len(reply), space)]
	}
	reply := make([]byte, space)
	out, in := [][]byte{request}, [][]byte{reply}
	n := c.dev.serve(readHeader(out), out, len(request), in, space)
	return reply[:n]
}

// request sends a request with a body and returns the reply's body.
func (c *client) request(op opcode, node uint64, body []byte, space int) ([]byte, error) {
	h := fuse.InHeader{Length: uint32(inHeaderSize + len(body)), Opcode: uint32(op), Unique: 7, NodeId: node, Caller: c.as}
	reply := c.raw(slices.Concat(bytesOf(&h), body), outHeaderSize+space)
	if op.operation().silent {
		return nil, nil
	}
	if len(reply) < outHeaderSize {
		c.t.Fatalf("operation %d: a reply of %d bytes", op, len(reply))
	}
	if errno := -int32(binary.LittleEndian.Uint32(reply[4:])); errno != 0 {
		return nil, unix.Errno(errno)
	}
	return reply[outHeaderSize:], nil
}

// call sends a request with the arguments in and names. It returns the beginning of the reply.
func call[Out, In any](c *client, op opcode, node uint64, in *In, names ...string) (out Out, err error) {
	var body []byte
	if in != nil {
		body = append(body, bytesOf(in)[inHeaderSize:]...)
	}
	for _, name := range names {
		body = append(append(body, name...), 0)
	}
	reply, err := c.request(op, node, body, int(unsafe.Sizeof(out)))
	copy(bytesOf(&out), reply)
	return out, err
}

// errNotMounted is what requests before a mount get.
const errNotMounted = unix.ENODEV

type none struct{}

func (c *client) lookup(dir uint64, name string) (fuse.EntryOut, error) {
	e, err := call[fuse.EntryOut, none](c, opLookup, dir, nil, name)
	if err == nil && e.NodeId == 0 {
		err = unix.ENOENT
	}
	return e, err
}

// walk looks a path up from the root.
func (c *client) walk(names ...string) (e fuse.EntryOut, err error) {
	e.NodeId = fuse.FUSE_ROOT_ID
	for _, name := range names {
		if e, err = c.lookup(e.NodeId, name); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (c *client) getattr(node uint64) (fuse.AttrOut, error) {
	return call[fuse.AttrOut](c, opGetAttr, node, &fuse.GetAttrIn{})
}

func (c *client) setattr(node uint64, in fuse.SetAttrInCommon) (fuse.AttrOut, error) {
	return call[fuse.AttrOut](c, opSetAttr, node, &fuse.SetAttrIn{SetAttrInCommon: in})
}

func (c *client) mkdir(dir uint64, name string) (fuse.EntryOut, error) {
	return call[fuse.EntryOut](c, opMkdir, dir, &fuse.MkdirIn{Mode: 0o755}, name)
}

func (c *client) create(dir uint64, name string) (fuse.CreateOut, error) {
	return call[fuse.CreateOut](c, opCreate, dir, &fuse.CreateIn{Flags: unix.O_RDWR | unix.O_CREAT, Mode: 0o644}, name)
}

func (c *client) open(node uint64, flags uint32) (fuse.OpenOut, error) {
	return call[fuse.OpenOut](c, opOpen, node, &fuse.OpenIn{Flags: flags})
}

func (c *client) release(fh uint64) {
	_, err := call[none](c, opRelease, 0, &fuse.ReleaseIn{Fh: fh})
	if err != nil {
		c.t.Error(err)
	}
}

func (c *client) read(fh uint64, off uint64, size int) ([]byte, error) {
	in := fuse.ReadIn{Fh: fh, Offset: off, Size: uint32(size)}
	return c.request(opRead, 0, bytesOf(&in)[inHeaderSize:], size)
}

func (c *client) write(fh uint64, off uint64, data []byte, flags uint32) error {
	in := fuse.WriteIn{Fh: fh, Offset: off, Size: uint32(len(data)), Flags: flags}
	_, err := c.request(opWrite, 0, append(bytesOf(&in)[inHeaderSize:], data...), 8)
	return err
}

func (c *client) fallocate(fh, off, size uint64, mode uint32) error {
	_, err := call[none](c, opFallocate, 0, &fuse.FallocateIn{Fh: fh, Offset: off, Length: size, Mode: mode})
	return err
}

func (c *client) unlink(dir uint64, name string) error {
	_, err := call[none, none](c, opUnlink, dir, nil, name)
	return err
}

func (c *client) rmdir(dir uint64, name string) error {
	_, err := call[none, none](c, opRmdir, dir, nil, name)
	return err
}

func (c *client) rename(dir uint64, name string, newDir uint64, newName string, flags uint32) error {
	_, err := call[none](c, opRename2, dir, &fuse.RenameIn{Newdir: newDir, Flags: flags}, name, newName)
	return err
}

func (c *client) link(node, dir uint64, name string) error {
	_, err := call[fuse.EntryOut](c, opLink, dir, &fuse.LinkIn{Oldnodeid: node}, name)
	return err
}

func (c *client) symlink(dir uint64, name, target string) error {
	_, err := call[fuse.EntryOut, none](c, opSymlink, dir, nil, name, target)
	return err
}

func (c *client) forget(node, n uint64) {
	_, _ = call[none](c, opForget, node, &fuse.ForgetIn{Nlookup: n})
}

func (c *client) statfs(node uint64) fuse.StatfsOut {
	out, err := call[fuse.StatfsOut, none](c, opStatFS, node, nil)
	if err != nil {
		c.t.Error(err)
	}
	return out
}

// list returns the names in a folder.
func (c *client) list(node uint64) (names []string) {
	for _, e := range c.entries(node) {
		names = append(names, e.Name)
	}
	return names
}

// entries returns what is in a folder, read in small pieces.
func (c *client) entries(node uint64) (all []fuse.DirEntry) {
	o, err := call[fuse.OpenOut](c, opOpenDir, node, &fuse.OpenIn{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer c.release(o.Fh)
	for off := uint64(0); ; {
		in := fuse.ReadIn{Fh: o.Fh, Offset: off, Size: 1024}
		b, err := c.request(opReadDir, node, bytesOf(&in)[inHeaderSize:], 1024)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(b) == 0 {
			return all
		}
		es, err := fuse.ParseDirEntries(b)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range es {
			off = e.Off
			if e.Name != "." && e.Name != ".." {
				all = append(all, e)
			}
		}
	}
}

// host writes a file in the share, as the host's user.
func (c *client) host(name, text string) {
	c.t.Helper()
	p := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// counts is what a device holds for the guest.
type counts struct {
	Nodes int // files that its kernel knows
	Paths int // descriptors of folders and removed files
	Open  int // open files and folders
}

func stats(d *Server) counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cur == nil {
		return counts{}
	}
	d.cur.mu.Lock()
	defer d.cur.mu.Unlock()
	return counts{len(d.cur.nodes), d.cur.paths.Len(), len(d.cur.handles)}
}

// want checks an error.
func want(t testing.TB, what string, err, expected error) {
	t.Helper()
	if err != expected {
		t.Errorf("%s: %v, want %v", what, err, expected)
	}
}

// must returns v, or ends the test if there is an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

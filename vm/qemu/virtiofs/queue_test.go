//go:build linux

package virtiofs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
	"osaurus-sandbox/vm/qemu/virtiofs"
)

const (
	ringSize  = 64
	slots     = 2 * vhosttest.RingBytes // offset of the buffers
	slotBytes = 256 << 10               // for each request: the request, and in the second half the reply
	replyAt   = slotBytes / 2
)

// The opcodes and sizes of FUSE that the tests need.
const (
	opRead, opWrite, opInit, opCreate = 15, 16, 26, 35

	inHeaderSize  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))
)

func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// message returns a request with its header.
func message[In any](op uint32, node uint64, in *In, names ...string) []byte {
	h := fuse.InHeader{Opcode: op, Unique: 1, NodeId: node}
	b := append(bytes.Clone(bytesOf(&h)), bytesOf(in)[inHeaderSize:]...)
	for _, name := range names {
		b = append(append(b, name...), 0)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

// ringGuest sends requests through a virtqueue.
type ringGuest struct {
	t        testing.TB
	m        *vhosttest.Machine
	requests *vhosttest.Queue
}

func newRingGuest(t testing.TB, d virtiofs.Device) *ringGuest {
	t.Helper()
	g := &ringGuest{t: t, m: vhosttest.New(t, slots+ringSize/4*slotBytes)}
	ctx, hangUp := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- vhostuser.Serve(ctx, g.m.Back, d, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		hangUp()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	g.m.Negotiate(0)
	g.m.Share()
	forgets := g.m.NewQueue(0, ringSize, 0)
	g.requests = g.m.NewQueue(1, ringSize, vhosttest.RingBytes)
	vhosttest.Start(forgets, g.requests)
	in := fuse.InitIn{Major: 7, Minor: 36}
	h := fuse.InHeader{Opcode: uint32(opInit)}
	copy(bytesOf(&in), bytesOf(&h))
	g.put(0, bytesOf(&in), 200)
	g.take()
	return g
}

// put sends a request in a slot, with two descriptors for the request and two for the reply.
func (g *ringGuest) put(slot int, request []byte, space int) {
	at := slots + slot*slotBytes
	copy(g.m.Mem[at:], request)
	clear(g.m.Mem[at+replyAt : at+slotBytes])
	const next, write = 1, vhosttest.Write
	first, d := min(60, len(request)-1), 4*slot
	g.requests.Describe(d, vhosttest.Base+uint64(at), uint32(first), next, uint16(d+1))
	g.requests.Describe(d+1, vhosttest.Base+uint64(at+first), uint32(len(request)-first), next, uint16(d+2))
	g.requests.Describe(d+2, vhosttest.Base+uint64(at+replyAt), 10, next|write, uint16(d+3))
	g.requests.Describe(d+3, vhosttest.Base+uint64(at+replyAt+10), uint32(space-10), write, 0)
	g.requests.Publish(uint16(d))
}

// take waits for an answer and returns it with its slot.
func (g *ringGuest) take() (slot int, reply []byte) {
	g.t.Helper()
	head, n := g.requests.MustTake()
	at := slots + int(head)/4*slotBytes + replyAt
	return int(head) / 4, g.m.Mem[at : at+int(n)]
}

// Reads must work with and without the data in the host's page cache.
func TestDataThroughRing(t *testing.T) {
	const size = 100000
	dir := t.TempDir()
	d, err := virtiofs.New(vm.Share{Path: dir}, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	g := newRingGuest(t, d)
	g.put(0, message(opCreate, fuse.FUSE_ROOT_ID, &fuse.CreateIn{Flags: unix.O_RDWR, Mode: 0o600}, "f"), 500)
	g.take()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	g.put(0, append(message(opWrite, 2, &fuse.WriteIn{Fh: 1, Size: size}), data...), outHeaderSize+8)
	if _, reply := g.take(); reply[4] != 0 {
		t.Fatalf("write: %v", reply)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(b, data) {
		t.Fatalf("the host reads %d bytes, %v", len(b), err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, cached := range []bool{true, false} {
		if !cached { // drop it from the page cache
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				t.Fatal(err)
			}
		}
		type part struct{ off, size, want int }
		parts := []part{{0, 4096, 4096}, {1, 65536, 65536}, {size - 10, 4096, 10}, {size, 4096, 0}, {1 << 40, 100, 0}, {5, 0, 0}}
		for i, p := range parts {
			g.put(i, message(opRead, 2, &fuse.ReadIn{Fh: 1, Offset: uint64(p.off), Size: uint32(p.size)}), outHeaderSize+max(p.size, 20))
		}
		for range parts {
			slot, reply := g.take()
			p := parts[slot]
			expect := data[min(p.off, size):min(p.off+p.want, size)]
			if len(reply) != outHeaderSize+len(expect) || !bytes.Equal(reply[outHeaderSize:], expect) {
				t.Errorf("cached %v, read %+v: %d bytes of reply", cached, p, len(reply))
			}
		}
	}
	g.put(0, append(message(opWrite, 2, &fuse.WriteIn{Fh: 1, Size: 100}), "too little"...), outHeaderSize+8)
	if _, reply := g.take(); len(reply) != outHeaderSize || int8(reply[4]) != -int8(unix.EINVAL) {
		t.Errorf("a write of less than it says: %v", reply)
	}
	g.put(0, message(opRead, 2, &fuse.ReadIn{Fh: 99, Size: 10}), outHeaderSize+10)
	if _, reply := g.take(); len(reply) != outHeaderSize || int8(reply[4]) != -int8(unix.EBADF) {
		t.Errorf("an unknown handle: %v", reply)
	}
	g.put(0, make([]byte, inHeaderSize-1), 100)
	if _, reply := g.take(); len(reply) != 0 {
		t.Errorf("no header: %v", reply)
	}
}

//go:build linux

package vhostuser_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
)

// Offsets in the memory of test machines.
const (
	memSize  = 1 << 20
	ring     = 0
	ringSize = 8
	data     = 0x8000
	reply    = 0x9000

	// patience is long enough for a busy host.
	patience = 30 * time.Second
)

func guest(offset int) uint64 { return vhosttest.Base + uint64(offset) }

// reverser is a device that answers each request with its bytes in reverse.
type reverser struct {
	served, resets, breaks atomic.Int64
	spawn                  bool                   // serve each chain on its own goroutine
	before                 func(request []byte)   // called with each request
	keep                   func(*vhostuser.Chain) // takes chains and never pushes them
}

func (*reverser) Features() uint64 { return 0 }
func (*reverser) Queues() int      { return 1 }
func (*reverser) Config() []byte   { return []byte{1, 2, 3, 4} }
func (d *reverser) Reset()         { d.resets.Add(1) }
func (d *reverser) Break()         { d.breaks.Add(1) }

func (d *reverser) HandleQueue(q *vhostuser.Queue) {
	for {
		c, ok := q.Pop()
		switch {
		case !ok:
			return
		case d.keep != nil:
			d.keep(c)
		case d.spawn:
			q.Go(c, d.serve)
		default:
			q.Push(c, d.serve(c))
			q.Notify()
		}
	}
}

func (d *reverser) serve(c *vhostuser.Chain) (n int) {
	const most = 256 // a hostile chain may be huge
	var in []byte
	for _, b := range c.Out {
		in = append(in, b[:min(len(b), most)]...)
	}
	if d.before != nil {
		d.before(in)
	}
	for _, b := range c.In {
		for i := range b[:min(len(b), most)] {
			if n < len(in) {
				b[i] = in[len(in)-1-n]
				n++
			}
		}
	}
	d.served.Add(1)
	return n
}

// serve starts a back end and returns a channel with its end.
func serve(m *vhosttest.Machine, dev vhostuser.Device) <-chan error {
	done := make(chan error, 1)
	go func() { done <- vhostuser.Serve(context.Background(), m.Back, dev, slog.New(slog.DiscardHandler)) }()
	return done
}

// run makes a machine with a running device.
func run(t *testing.T, dev vhostuser.Device, features uint64) (*vhosttest.Machine, *vhosttest.Queue, <-chan error) {
	t.Helper()
	m := vhosttest.New(t, memSize)
	done := serve(m, dev)
	m.Negotiate(features)
	m.Share()
	q := m.NewQueue(0, ringSize, ring)
	vhosttest.Start(q)
	return m, q, done
}

// ask sends a request and returns the answer.
func ask(t *testing.T, m *vhosttest.Machine, q *vhosttest.Queue, text string) string {
	t.Helper()
	send(m, q, text)
	_, n := q.MustTake()
	return string(m.Mem[reply:][:n])
}

func send(m *vhosttest.Machine, q *vhosttest.Queue, text string) {
	copy(m.Mem[data:], text)
	q.Describe(0, guest(data), uint32(len(text)), vhosttest.Next, 1)
	q.Describe(1, guest(reply), 4096, vhosttest.Write, 0)
	q.Publish(0)
}

func TestQueue(t *testing.T) {
	for name, features := range map[string]uint64{"plain": 0, "event index": vhosttest.EventIdx, "indirect": vhosttest.Indirect} {
		t.Run(name, func(t *testing.T) {
			m, q, _ := run(t, &reverser{}, features)
			for i := range 3 * ringSize {
				if features == vhosttest.Indirect {
					table := m.Mem[data+0x800:]
					vhosttest.PutDesc(table, guest(data), 5, vhosttest.Next, 1)
					vhosttest.PutDesc(table[16:], guest(reply), 5, vhosttest.Write, 0)
					copy(m.Mem[data:], "hello")
					q.Describe(i%ringSize, guest(data+0x800), 32, vhosttest.IndirectDesc, 0)
					q.Publish(uint16(i % ringSize))
					if head, n := q.MustTake(); int(head) != i%ringSize || n != 5 || string(m.Mem[reply:][:5]) != "olleh" {
						t.Fatalf("request %d: %d bytes in %d: %q", i, n, head, m.Mem[reply:][:5])
					}
				} else if got := ask(t, m, q, "hello"); got != "olleh" {
					t.Fatalf("request %d: %q", i, got)
				}
			}
			if !vhosttest.Signalled(q.Call, patience) {
				t.Error("the driver was not interrupted")
			}
			if base := q.Stop(); base != 3*ringSize {
				t.Errorf("the next entry is %d, not %d", base, 3*ringSize)
			}
		})
	}
}

// TestRegions sends requests whose buffers and indirect tables cross from one memory region into the
// next, as in a guest with much memory.
func TestRegions(t *testing.T) {
	const half = memSize / 2
	m := vhosttest.New(t, memSize)
	serve(m, &reverser{})
	m.Negotiate(vhosttest.Indirect)
	m.Seal()
	// Adjacent for the guest, separate for QEMU, and swapped in the file.
	m.Must(vhosttest.SetMemTable, vhosttest.MemTable(
		vhosttest.Region{Guest: vhosttest.Base, Size: half, User: vhosttest.User, Offset: half},
		vhosttest.Region{Guest: vhosttest.Base + half, Size: half, User: vhosttest.User + 2*half, Offset: 0},
	), m.MemFD, m.MemFD)
	at := func(offset int) []byte { return m.Mem[(offset+half)%memSize:] }
	// By QEMU's address, the ring is in the second half of the file.
	q := m.NewQueue(0, ringSize, half)
	q.Configure(0, vhosttest.User)
	q.Enable()
	copy(at(half-3), "hel")
	copy(at(half), "lo")
	q.Describe(0, guest(half-3), 5, vhosttest.Next, 1)
	q.Describe(1, guest(reply), 5, vhosttest.Write, 0)
	q.Publish(0)
	if q.MustTake(); string(at(reply)[:5]) != "olleh" {
		t.Errorf("buffer across regions: %q", at(reply)[:5])
	}
	// A table of two descriptors, one in each region.
	copy(at(data), "again")
	table := make([]byte, 32)
	vhosttest.PutDesc(table, guest(data), 5, vhosttest.Next, 1)
	vhosttest.PutDesc(table[16:], guest(reply), 5, vhosttest.Write, 0)
	copy(at(half-16), table[:16])
	copy(at(half), table[16:])
	q.Describe(2, guest(half-16), 32, vhosttest.IndirectDesc, 0)
	q.Publish(2)
	if q.MustTake(); string(at(reply)[:5]) != "niaga" {
		t.Errorf("table across regions: %q", at(reply)[:5])
	}
}

// TestPause stops and resumes the ring like QEMU in a pause: the device must keep its state. A start
// at entry 0 means a new driver.
func TestPause(t *testing.T) {
	dev := &reverser{}
	m, q, _ := run(t, dev, 0)
	for range 3 {
		ask(t, m, q, "before")
		q.Resume(q.Stop())
	}
	if got := ask(t, m, q, "after"); got != "retfa" {
		t.Errorf("after a pause: %q", got)
	}
	if n := dev.resets.Load(); n != 1 {
		t.Errorf("%d resets, want the first start's only", n)
	}
	q.Stop()
	q.Clear()
	vhosttest.Start(q)
	if got := ask(t, m, q, "anew"); got != "wena" || dev.resets.Load() != 2 {
		t.Errorf("after a reset: %q, %d resets", got, dev.resets.Load())
	}
}

// TestNewMemoryTable replaces the memory table under a running ring.
func TestNewMemoryTable(t *testing.T) {
	m, q, _ := run(t, &reverser{}, 0)
	for range 3 {
		m.Share()
		if got := ask(t, m, q, "moved"); got != "devom" {
			t.Errorf("after a new table: %q", got)
		}
	}
}

// TestPanic makes a device panic, on its queue's goroutine and on a request's. That must break only
// this device, notify the front end, and be repaired by a reset.
func TestPanic(t *testing.T) {
	for name, spawn := range map[string]bool{"queue": false, "request": true} {
		t.Run(name, func(t *testing.T) {
			otherMachine, otherQueue, _ := run(t, &reverser{}, 0)
			dev := &reverser{spawn: spawn, before: func(b []byte) {
				if string(b) == "panic" {
					panic("on request")
				}
			}}
			m, q, _ := run(t, dev, 0)
			ask(t, m, q, "fine")
			send(m, q, "panic")
			if !vhosttest.Signalled(q.Error, patience) {
				t.Error("the front end was not told")
			}
			send(m, q, "more")
			if got := ask(t, otherMachine, otherQueue, "other"); got != "rehto" {
				t.Errorf("the other device: %q", got)
			}
			if base := q.Stop(); base != 2 {
				t.Errorf("the broken device took %d chains, want 2", base)
			}
			q.Clear()
			vhosttest.Start(q) // waits until the device was told
			if n := dev.breaks.Load(); n != 1 {
				t.Errorf("the device was told %d times that it is broken", n)
			}
			if got := ask(t, m, q, "repaired"); got != "deriaper" {
				t.Errorf("after the reset: %q", got)
			}
		})
	}
}

// TestMemoryRefused offers memory on which an access could crash this process.
func TestMemoryRefused(t *testing.T) {
	m := vhosttest.New(t, memSize)
	serve(m, &reverser{})
	m.Negotiate(0)
	whole := vhosttest.Region{Guest: vhosttest.Base, Size: memSize, User: vhosttest.User}
	refused := func(why string, fds []int, rs ...vhosttest.Region) {
		t.Helper()
		if !m.Refused(vhosttest.SetMemTable, vhosttest.MemTable(rs...), fds...) {
			t.Errorf("%s was accepted", why)
		}
	}
	one, two := []int{m.MemFD}, []int{m.MemFD, m.MemFD}
	refused("memory that can shrink", one, whole)
	m.Seal()
	refused("a region past the end of its file", one, vhosttest.Region{Guest: 0, Size: 2 * memSize})
	refused("an offset past the end", one, vhosttest.Region{Guest: 0, Size: memSize, Offset: 4096})
	refused("a size that wraps around", one, vhosttest.Region{Guest: 4096, Size: 1<<64 - 4096})
	refused("overlapping regions", two, whole, whole)
	refused("a region without a descriptor", one, whole, vhosttest.Region{Guest: 1 << 40, Size: 4096})
	refused("an empty region", one, vhosttest.Region{Guest: 4096})
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	refused("a descriptor that is no memory", []int{int(null.Fd())}, whole)
	m.Must(vhosttest.SetMemTable, vhosttest.MemTable(whole), one...)
}

// TestHostileRing writes random rings into running queues. Process and control plane must survive.
func TestHostileRing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	addrs := []uint64{0, guest(0), guest(data), guest(memSize - 8), guest(-1), 1<<64 - 1, 1<<64 - 16, guest(ring)}
	lens := []uint32{0, 1, 16, 32, 4096, memSize, 1<<32 - 1, 1 << 31}
	flags := []uint16{0, 0, vhosttest.Write, vhosttest.Next}
	dev := &reverser{}
	for round := range 60 {
		_, q, _ := run(t, dev, vhosttest.Indirect|uint64(round%2)*vhosttest.EventIdx)
		for range 50 {
			for i := range ringSize {
				q.Describe(i, guest(data), uint32(r.IntN(100)), flags[r.IntN(len(flags))], uint16(i+1))
				if r.IntN(30) == 0 {
					q.Describe(i, addrs[r.IntN(len(addrs))], lens[r.IntN(len(lens))], uint16(r.IntN(8)), uint16(r.IntN(ringSize+2)))
				}
			}
			q.Publish(uint16(r.IntN(ringSize)))
			if r.IntN(4) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
		q.Stop()
	}
	if dev.served.Load() == 0 {
		t.Error("no request was well-formed: the test misses its aim")
	}
}

// TestLeavesNothing compares goroutines and descriptors before and after.
func TestLeavesNothing(t *testing.T) {
	count := func() (int, int) {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(files)
	}
	goroutines, files := count()
	for range 20 {
		t.Run("machine", func(t *testing.T) {
			m, q, done := run(t, &reverser{spawn: true}, 0)
			ask(t, m, q, "x")
			m.Front.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		g, f := count()
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines: %d before, %d after; descriptors: %d before, %d after", goroutines, g, files, f)
		}
	}
}

//go:build linux

package vhostuser

import (
	"context"
	"log/slog"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
)

// taker is a device with one queue that returns all chains.
type taker struct{ check func(*Chain) }

func (taker) Features() uint64 { return 0 }
func (taker) Queues() int      { return 1 }
func (taker) Config() []byte   { return []byte{1, 2, 3, 4} }
func (taker) Reset()           {}
func (taker) Break()           {}
func (d taker) HandleQueue(q *Queue) {
	for c, ok := q.Pop(); ok; c, ok = q.Pop() {
		if d.check != nil {
			d.check(c)
		}
		q.Push(c, c.InLen)
	}
}

// FuzzControl sends a front end's messages. The input is cut into messages:
// a request, a number of descriptors, a length, a payload.
func FuzzControl(f *testing.F) {
	message := func(req request, fds byte, payload []byte) []byte {
		return append([]byte{byte(req), fds, byte(len(payload))}, payload...)
	}
	f.Add(message(reqSetMemTable, 1, vhosttest.MemTable(vhosttest.Region{Guest: vhosttest.Base, Size: 1 << 16, User: vhosttest.User})))
	f.Add(append(message(reqSetVringNum, 0, vhosttest.State(0, 8)), message(reqSetVringKick, 2, vhosttest.U64(0))...))
	f.Add(append(message(reqGetVringBase, 0, vhosttest.State(0, 0)), message(reqGetConfig, 0, make([]byte, 16))...))
	f.Fuzz(func(t *testing.T, in []byte) {
		m := vhosttest.New(t, 1<<16)
		m.Seal()
		event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(event)
		done := make(chan error, 1)
		go func() { done <- Serve(context.Background(), m.Back, taker{}, slog.New(slog.DiscardHandler)) }()
		for len(in) >= 3 {
			fds := [][]int{nil, {m.MemFD}, {event}, {m.MemFD, event}}[in[1]%4]
			n := min(int(in[2]), len(in)-3)
			m.Send(uint32(in[0]), in[3:3+n], fds...)
			in = in[3+n:]
		}
		_ = m.Front.CloseWrite()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("the back end hangs")
		}
	})
}

// FuzzMemTable maps the memory of a SET_MEM_TABLE.
func FuzzMemTable(f *testing.F) {
	f.Add(vhosttest.MemTable(vhosttest.Region{Guest: vhosttest.Base, Size: 1 << 16, User: vhosttest.User}))
	f.Add(vhosttest.MemTable(vhosttest.Region{Guest: 0, Size: 4096}, vhosttest.Region{Guest: 4096, Size: 1 << 15, Offset: 1 << 15}))
	f.Add(vhosttest.MemTable(vhosttest.Region{Size: 1<<64 - 1, Offset: 1<<64 - 1}))
	f.Fuzz(func(t *testing.T, in []byte) {
		rs, err := parseMemTable(in)
		if err != nil {
			return
		}
		m := vhosttest.New(t, 1<<16)
		m.Seal()
		var fds []int
		for range rs {
			fds = append(fds, m.MemFD)
		}
		mem, err := newMemory(rs, fds)
		if err != nil {
			return
		}
		defer mem.release()
		for _, r := range rs { // accepted memory must be accessible
			iov, err := mem.appendGuest(nil, r.GPA, r.Size)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range iov {
				b[0]++
				b[len(b)-1]++
			}
		}
	})
}

// FuzzQueue puts the input into a ring: first the descriptors, then the available ring, then memory
// for indirect tables.
func FuzzQueue(f *testing.F) {
	const (
		num  = 8
		size = 1 << 16
	)
	seed := make([]byte, 2*4096)
	vhosttest.PutDesc(seed, vhosttest.Base+0x4000, 100, vhosttest.Next, 1)
	vhosttest.PutDesc(seed[16:], vhosttest.Base+0x5000, 100, vhosttest.Write, 0)
	vhosttest.PutDesc(seed[32:], vhosttest.Base, 32, vhosttest.IndirectDesc, 0)
	le.PutUint16(seed[num*descSize+2:], 2)
	le.PutUint16(seed[num*descSize+6:], 2)
	f.Add(seed[:num*descSize+6+2*num], true)
	f.Add(seed[:num*descSize+6+2*num], false)
	f.Fuzz(func(t *testing.T, in []byte, eventIdx bool) {
		m := vhosttest.New(t, size)
		m.Seal()
		mem, err := newMemory([]memRegion{{vhosttest.Base, size / 2, vhosttest.User, 0}, {vhosttest.Base + size/2, size / 2, vhosttest.User + size, size / 2}}, []int{m.MemFD, m.MemFD})
		if err != nil {
			t.Fatal(err)
		}
		defer mem.release()
		const usedAt = size/2 - 4096
		h := &health{report: func(error) {}}
		defer h.reports.Wait()
		popped := 0
		dev := taker{func(c *Chain) {
			popped++
			for _, b := range append(c.In, c.Out...) {
				inMemory(t, mem, b)
			}
		}}
		q := newQueue(0, h, slog.New(slog.DiscardHandler), dev.HandleQueue)
		q.num, q.indirect, q.eventIdx = num, true, eventIdx
		q.addr = vringAddr{Desc: vhosttest.User, Avail: vhosttest.User + num*descSize, Used: vhosttest.User + usedAt}
		copy(m.Mem[:usedAt], in)
		if err := q.mapRings(mem); err != nil {
			t.Fatal(err)
		}
		q.running = true
		q.handle(q)
		if used := le.Uint16(m.Mem[usedAt+2:]); int(used) != popped || popped > num {
			t.Errorf("%d chains taken, %d given back, of a ring of %d", popped, used, num)
		}
		if q.inflight != 0 {
			t.Errorf("%d chains in flight", q.inflight)
		}
		q.mem.release()
	})
}

// inMemory checks that a buffer is in guest memory and accessible.
func inMemory(t *testing.T, mem *memory, b []byte) {
	if len(b) == 0 {
		return
	}
	for _, r := range mem.regions {
		first, start := uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&r.data[0]))
		if first >= start && first+uintptr(len(b)) <= start+uintptr(r.size) {
			_ = b[0] ^ b[len(b)-1]
			return
		}
	}
	t.Fatal("a buffer outside of guest memory")
}

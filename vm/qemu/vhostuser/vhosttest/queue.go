//go:build linux

package vhosttest

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descriptor flags.
const (
	Next         = 1
	Write        = 2
	IndirectDesc = 4
)

// RingBytes is the size of a ring with up to 128 entries.
const RingBytes = 3 * 4096

// Queue is the driver's half of a virtqueue.
type Queue struct {
	m          *Machine
	index, num int

	Desc              int // offset of the descriptors in Mem
	avail, used       int
	Kick, Call, Error int // eventfds

	added, taken uint16
}

// NewQueue returns a queue whose ring is at an offset in Mem.
func (m *Machine) NewQueue(index, num, offset int) *Queue {
	m.t.Helper()
	q := &Queue{m: m, index: index, num: num, Desc: offset, avail: offset + 4096, used: offset + 8192}
	for _, fd := range []*int{&q.Kick, &q.Call, &q.Error} {
		var err error
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { unix.Close(*fd) })
	}
	return q
}

// Start starts rings at their first entry. Like QEMU, it configures all before it enables any.
func Start(qs ...*Queue) {
	for _, q := range qs {
		q.m.t.Helper()
		q.Configure(0, User+uint64(q.Desc))
	}
	for _, q := range qs {
		q.Enable()
	}
}

// Resume resumes a stopped ring at an entry.
func (q *Queue) Resume(base uint16) {
	q.m.t.Helper()
	q.Configure(base, User+uint64(q.Desc))
	q.Enable()
}

// Configure configures the ring in the back end. user is the ring's address in QEMU.
func (q *Queue) Configure(base uint16, user uint64) {
	q.m.t.Helper()
	i := uint32(q.index)
	q.m.Must(SetVringNum, State(i, uint32(q.num)))
	q.m.Must(SetVringBase, State(i, uint32(base)))
	addr := State(i, 0)
	for _, off := range []int{q.Desc, q.used, q.avail} {
		addr = le.AppendUint64(addr, user+uint64(off-q.Desc))
	}
	q.m.Must(SetVringAddr, le.AppendUint64(addr, 0))
	q.m.Must(SetVringErr, U64(uint64(i)), q.Error)
	q.m.Must(SetVringCall, U64(uint64(i)), q.Call)
	q.m.Must(SetVringKick, U64(uint64(i)), q.Kick)
}

// Enable enables a configured ring.
func (q *Queue) Enable() {
	q.m.t.Helper()
	q.m.Must(SetVringEnable, State(uint32(q.index), 1))
}

// Stop disables and stops the ring, like QEMU, and returns the back end's next entry.
func (q *Queue) Stop() uint16 {
	q.m.t.Helper()
	q.m.Must(SetVringEnable, State(uint32(q.index), 0))
	return le.Uint16(q.m.Ask(GetVringBase, State(uint32(q.index), 0))[4:])
}

// Clear empties the stopped ring, like a driver that restarts.
func (q *Queue) Clear() {
	clear(q.m.Mem[q.Desc:][:RingBytes])
	q.added, q.taken = 0, 0
}

// Describe writes a descriptor.
func (q *Queue) Describe(i int, addr uint64, n uint32, flags, next uint16) {
	PutDesc(q.m.Mem[q.Desc+16*i:], addr, n, flags, next)
}

// PutDesc writes a descriptor into a table.
func PutDesc(b []byte, addr uint64, n uint32, flags, next uint16) {
	le.PutUint64(b, addr)
	le.PutUint32(b[8:], n)
	le.PutUint16(b[12:], flags)
	le.PutUint16(b[14:], next)
}

// word is a ring's flags (always 0 here) and index.
func (q *Queue) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&q.m.Mem[off])) }

// Publish makes chains available to the device and kicks it.
func (q *Queue) Publish(heads ...uint16) {
	for _, h := range heads {
		le.PutUint16(q.m.Mem[q.avail+4+2*(int(q.added)%q.num):], h)
		q.added++
	}
	q.SetAvail(q.added)
}

// SetAvail sets the index of the available ring, which may be invalid, and kicks.
func (q *Queue) SetAvail(index uint16) {
	q.added = index
	atomic.StoreUint32(q.word(q.avail), uint32(index)<<16)
	q.kick()
}

func (q *Queue) kick() { _, _ = unix.Write(q.Kick, U64(1)) }

// Take returns the next used chain and the number of bytes written to it. It reports false if there
// is none.
func (q *Queue) Take() (head uint16, n uint32, ok bool) {
	if uint16(atomic.LoadUint32(q.word(q.used))>>16) == q.taken {
		return 0, 0, false
	}
	e := q.m.Mem[q.used+4+8*(int(q.taken)%q.num):]
	q.taken++
	return uint16(le.Uint32(e)), le.Uint32(e[4:]), true
}

// MustTake waits for a used chain.
func (q *Queue) MustTake() (head uint16, n uint32) {
	q.m.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Microsecond) {
		head, n, ok := q.Take()
		if ok {
			return head, n
		}
		if time.Now().After(deadline) {
			q.m.t.Fatalf("queue %d: nothing was used", q.index)
		}
	}
}

// Signalled waits for a signal of an eventfd and clears it. It reports false if none comes in time.
func Signalled(fd int, wait time.Duration) bool {
	for deadline := time.Now().Add(wait); ; time.Sleep(100 * time.Microsecond) {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err == nil {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

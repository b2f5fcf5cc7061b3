//go:build linux

package vhostuser

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
)

// TestNotifyLater returns chains with few interrupts: one for a quarter of the ring, or after a
// delay.
func TestNotifyLater(t *testing.T) {
	const num = 8
	m := vhosttest.New(t, 1<<16)
	m.Seal()
	mem, err := newMemory([]memRegion{{vhosttest.Base, 1 << 16, vhosttest.User, 0}}, []int{m.MemFD})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.release()
	ring := m.NewQueue(0, num, 0)
	for i := range uint16(3) {
		ring.Describe(int(i), vhosttest.Base, 1, 0, 0)
		ring.Publish(i)
	}
	timetest.Synthetic(t, func(t *testing.T) {
		q := newQueue(0, new(health), slog.New(slog.DiscardHandler), func(*Queue) {})
		q.num, q.call, q.running = num, ring.Call, true
		q.addr = vringAddr{Desc: vhosttest.User, Avail: vhosttest.User + 4096, Used: vhosttest.User + 8192}
		if err := q.mapRings(mem); err != nil {
			t.Fatal(err)
		}
		defer q.mem.release()
		for i, notified := range []bool{false, true, false} {
			c, ok := q.Pop()
			if !ok {
				t.Fatal("no chain")
			}
			q.Push(c, 0)
			q.NotifyLater()
			if vhosttest.Signalled(ring.Call, 0) != notified {
				t.Errorf("after chain %d: notified is not %v", i+1, notified)
			}
		}
		time.Sleep(notifyDelay)
		synctest.Wait()
		if !vhosttest.Signalled(ring.Call, 0) {
			t.Error("no notification after the delay")
		}
	})
}

//go:build linux

package vhostuser_test

import (
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/vhostuser/vhosttest"
)

// TestLostChain stops a broken device that never pushes a chain. The front end must not wait, and a
// late push must not touch the ring.
func TestLostChain(t *testing.T) {
	kept := make(chan *vhostuser.Chain, 1)
	var queue atomic.Pointer[vhostuser.Queue]
	dev := &queueRecorder{reverser: reverser{keep: func(c *vhostuser.Chain) { kept <- c }}, queue: &queue}
	m, q, _ := run(t, dev, 0)
	send(m, q, "lost")
	c := <-kept
	q.SetAvail(0x7fff) // breaks the ring
	if !vhosttest.Signalled(q.Error, patience) {
		t.Fatal("a bad index did not break the ring")
	}
	q.Stop()
	q.Clear()
	dev.keep = nil
	vhosttest.Start(q)
	queue.Load().Push(c, 4)
	if got := ask(t, m, q, "next"); got != "txen" {
		t.Errorf("after the reset: %q", got)
	}
}

// hanging returns a device that serves on its queue's own goroutine and hangs in the request "hang",
// as in a dead network file system, until end is closed.
func hanging() (dev *queueRecorder, hangs <-chan struct{}, end chan struct{}) {
	began := make(chan struct{})
	end = make(chan struct{})
	dev = &queueRecorder{queue: new(atomic.Pointer[vhostuser.Queue]), reverser: reverser{before: func(b []byte) {
		if string(b) == "hang" {
			close(began)
			<-end
		}
	}}}
	return dev, began, end
}

// TestHangUpDuringRequest ends a machine whose device hangs in a request. The wait must be limited,
// and the request must keep its memory.
func TestHangUpDuringRequest(t *testing.T) {
	dev, hangs, end := hanging()
	m, q, done := run(t, dev, 0)
	send(m, q, "hang")
	<-hangs
	m.Front.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * patience):
		t.Error("the device is still served, long after the front end has hung up")
	}
	close(end)
	timetest.Eventually(t, "the request goes on", func() bool { return dev.served.Load() > 0 })
	if got := string(m.Mem[reply:][:4]); got != "gnah" {
		t.Errorf("the request wrote %q", got)
	}
}

// TestResetDuringRequest resets a broken device that hangs in a request. After that request it must
// work again, and not answer earlier requests.
func TestResetDuringRequest(t *testing.T) {
	dev, hangs, end := hanging()
	m, q, _ := run(t, dev, 0)
	send(m, q, "hang")
	<-hangs
	dev.queue.Load().Guard(func() { panic("it is broken too") })
	q.Stop()
	q.Clear()
	vhosttest.Start(q)
	send(m, q, "next")
	if n := dev.served.Load(); n != 0 {
		t.Errorf("%d requests were served beside the one that hangs", n)
	}
	close(end)
	if head, n := q.MustTake(); head != 0 || string(m.Mem[reply:][:n]) != "txen" {
		t.Errorf("after the reset: %q", m.Mem[reply:][:n])
	}
	if _, _, more := q.Take(); more || dev.served.Load() != 2 {
		t.Errorf("what hung was answered: %v; %d requests were served, want 2", more, dev.served.Load())
	}
}

// queueRecorder is a reverser that records its queue.
type queueRecorder struct {
	reverser
	queue *atomic.Pointer[vhostuser.Queue]
}

func (r *queueRecorder) HandleQueue(q *vhostuser.Queue) {
	r.queue.Store(q)
	r.reverser.HandleQueue(q)
}

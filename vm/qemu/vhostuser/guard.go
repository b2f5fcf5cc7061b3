//go:build linux

package vhostuser

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// health records whether a device is broken. The queues of a device share it.
type health struct {
	broken  atomic.Bool
	report  func(error) // runs on its own goroutine, once per break
	reports sync.WaitGroup
}

// fail breaks the device. It never blocks, so it may be called under any lock.
func (h *health) fail(err error) {
	if h.broken.CompareAndSwap(false, true) {
		h.reports.Go(func() { h.report(err) })
	}
}

// repair makes a broken device work again. No queue may run meanwhile.
func (h *health) repair() {
	h.reports.Wait()
	h.broken.Store(false)
}

// guard runs f. A panic in f breaks the device, and so does SIGBUS on guest memory, which occurs
// when the host is out of memory.
func (h *health) guard(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			h.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// Guard runs f, which uses q on another goroutine than the queue's. A panic in f only breaks the
// device.
func (q *Queue) Guard(f func()) { q.health.guard(f) }

// Go calls serve for one chain on a new goroutine, pushes the chain with the returned length and
// notifies the driver. If serve panics, the device breaks and the chain is dropped.
func (q *Queue) Go(c *Chain, serve func(*Chain) int) {
	go q.health.guard(func() {
		done := false
		defer func() {
			if !done {
				q.drop(c)
			}
		}()
		n := serve(c)
		done = true
		q.Push(c, n)
		q.Notify()
	})
}

//go:build linux

package vhostuser

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// health is whether a device works. The queues of a device share one.
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

// mend makes a broken device work again. No queue runs meanwhile.
func (h *health) mend() {
	h.reports.Wait()
	h.broken.Store(false)
}

// guard runs f. A panic in it breaks the device, and so does a fault of guest
// memory (a host that has no page left for it answers an access with SIGBUS).
func (h *health) guard(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			h.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// Guard runs f, which uses q, on a goroutine that is not the queue's own. A
// panic in f breaks the device and goes no further.
func (q *Queue) Guard(f func()) { q.health.guard(f) }

// Go serves one chain on a goroutine of its own: it pushes the chain with the
// length that serve returns and notifies the driver. If serve panics, the
// device breaks and the chain is dropped.
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

// Package timetest helps tests to wait: for a condition, for a while, or in synthetic time.
package timetest

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Limit is far longer than anything takes on an idle host. Tests run beside
// compilers and emulated guests.
const Limit = 2 * time.Minute

const pollInterval = 5 * time.Millisecond

// Eventually fails the test unless condition becomes true within Limit.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Limit); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("still not true after %s: %s", Limit, what)
		}
	}
}

// NoLeaks fails the test if goroutines or descriptors that it opened are left when it has ended.
func NoLeaks(t testing.TB) {
	t.Helper()
	count := func() (goroutines, files int) {
		list, _ := os.ReadDir("/dev/fd")
		return runtime.NumGoroutine(), len(list)
	}
	// The runtime's own watcher of signals stays once it has started.
	watch := make(chan os.Signal, 1)
	signal.Notify(watch, syscall.SIGCHLD)
	signal.Stop(watch)
	goroutines, files := count()
	t.Cleanup(func() {
		for deadline := time.Now().Add(Limit); ; time.Sleep(pollInterval) {
			g, f := count()
			if g <= goroutines && f <= files {
				return
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("goroutines %d → %d, descriptors %d → %d\n%s", goroutines, g, files, f, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// Sleep sleeps for d in many steps, so that a stall of the host costs one step
// and other goroutines still get their share of the rest.
func Sleep(d time.Duration) {
	const steps = 50
	for range steps {
		time.Sleep(d / steps)
	}
}

// Synthetic is synctest.Test on a single thread. With more, the race detector
// crashes on two timers that are read at once (golang/go#78156).
func Synthetic(t *testing.T, test func(*testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, test)
}

// Wait is synctest.Wait.
func Wait() { synctest.Wait() }

// Package timetest helps tests to wait: for a condition, for a while, or in synthetic time.
package timetest

import (
	"runtime"
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

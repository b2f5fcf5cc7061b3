// Package bubble has tests run in a bubble of testing/synctest, in which time passes when all wait, one thread at a time.
package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test. With -race, two timers of a bubble that are read at once, as two
// tickers are whose readers were busy, break the race detector (golang/go#78156): one thread
// alone runs Go until the test ends. Races are found all the same.
func Test(t *testing.T, test func(*testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, test)
}

// Wait is synctest.Wait.
func Wait() { synctest.Wait() }

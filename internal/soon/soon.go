// Package soon has tests wait for what comes about without anybody asking.
package soon

import (
	"testing"
	"time"
)

// Limit is far more than anything takes on a host that has nothing else to do: others
// compile and emulate guests beside a test.
const Limit = 2 * time.Minute

// look is how often Until looks.
const look = 5 * time.Millisecond

// Until waits until it is so.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Limit); !is(); time.Sleep(look) {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// Pass lets a time pass in many pieces: of one in which a busy host stopped, nothing
// that goes on beside would have had its share.
func Pass(d time.Duration) {
	const pieces = 50
	for range pieces {
		time.Sleep(d / pieces)
	}
}

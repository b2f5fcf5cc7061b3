package control

import (
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

// After the client has closed its side, a silent room ends the connection. The time in which
// the client reads an answer does not count.
func TestSilentRoom(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		over := make(chan time.Time, 1)
		silence := time.AfterFunc(maxSilence, func() { over <- time.Now() })
		silence.Stop()
		answer := func(takes time.Duration) {
			_ = pausing(silence, maxSilence, func() error { time.Sleep(takes); return nil })
		}
		answer(0)
		time.Sleep(2 * maxSilence)
		silence.Reset(maxSilence)
		for range 3 {
			time.Sleep(maxSilence - time.Second)
			answer(2 * maxSilence)
		}
		if len(over) > 0 {
			t.Fatal("it ended early")
		}
		last := time.Now()
		if at := <-over; at.Sub(last) != maxSilence {
			t.Errorf("it ended after %v", at.Sub(last))
		}
	})
}

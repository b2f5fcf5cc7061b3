package bubble_test

import (
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/bubble"
)

// Timers that are due before they are read are read by several at once.
func TestDueTimers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for range 50_000 {
					<-time.After(0)
				}
			})
		}
		bubble.Wait()
		readers.Wait()
	})
}

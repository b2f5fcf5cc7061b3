package notify_test

import (
	"sync"
	"testing"

	"osaurus-sandbox/internal/notify"
)

// Whoever takes the bell before looking sees every change, however many look.
func TestNobodyMissesTheLastChange(t *testing.T) {
	const changes, readers = 1000, 8
	var b notify.Bell
	var mu sync.Mutex
	value := 0
	look := func() int {
		mu.Lock()
		defer mu.Unlock()
		return value
	}
	var work sync.WaitGroup
	for range readers {
		work.Go(func() {
			for {
				changed := b.Next()
				if look() == changes {
					return
				}
				<-changed
			}
		})
	}
	for range changes {
		mu.Lock()
		value++
		mu.Unlock()
		b.Ring()
	}
	work.Wait()
	next := b.Next()
	select {
	case <-next:
		t.Error("a bell that was not rung is heard")
	default:
	}
	if b.Ring(); b.Next() == next {
		t.Error("what was heard is to be heard again")
	}
	<-next
}

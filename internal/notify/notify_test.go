package notify_test

import (
	"sync"
	"testing"

	"osaurus-sandbox/internal/notify"
)

// Readers that call Next before looking see every change.
func TestNoChangeIsMissed(t *testing.T) {
	const changes, readers = 1000, 8
	var b notify.Notifier
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
		b.Notify()
	}
	work.Wait()
	next := b.Next()
	select {
	case <-next:
		t.Error("Next is closed without Notify")
	default:
	}
	if b.Notify(); b.Next() == next {
		t.Error("Notify does not replace the channel")
	}
	<-next
}

func TestClosed(t *testing.T) {
	c := make(chan struct{})
	if notify.Closed(nil) || notify.Closed(c) {
		t.Error("an open channel is closed")
	}
	if close(c); !notify.Closed(c) {
		t.Error("a closed channel is open")
	}
}

func TestSignal(t *testing.T) {
	c := make(chan struct{}, 1)
	notify.Signal(c)
	notify.Signal(c)
	if <-c; len(c) != 0 {
		t.Error("two signals are two tokens")
	}
}

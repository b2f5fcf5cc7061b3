// Package bell tells all who wait that something has changed.
package notify

import "sync"

// Bell is rung whenever what it stands for has changed. Its zero value is one that was
// never rung; its methods may be called from any goroutine.
type Bell struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next is closed when the bell is rung next. Whoever takes it before looking
// whether there is something misses nothing.
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Ring tells all who wait.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Package notify wakes everyone who waits for a change.
package notify

import "sync"

// Notifier announces changes. Its zero value is ready to use, by many goroutines
// at once.
type Notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next returns a channel that the next Notify closes. Get it before looking at
// the state: then no change is missed.
func (n *Notifier) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// Notify wakes everyone who waits.
func (n *Notifier) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// Closed reports whether a channel, on which nobody sends, is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Signal wakes the receiver of a channel with a buffer of one. It does nothing if a signal is already pending.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

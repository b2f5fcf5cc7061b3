package bridge

import (
	"fmt"
	"sync"
	"time"
)

// Limits are how many requests of one agent are accepted in any minute. What is
// refused does not count.
type Limits struct {
	Secrets   int
	Config    int // get and set
	Inference int
	HTTP      int // events and plugins
	Dispatch  int
	Memory    int // query and store
	Log       int
}

// DefaultLimits are the limits of somebody who chose nothing.
func DefaultLimits() Limits {
	return Limits{
		Secrets:   120, // a program asks once and keeps it
		Config:    600, // cheap, and plugins have loops
		Inference: 60,
		HTTP:      120,
		Dispatch:  10, // each becomes the work of an agent
		Memory:    120,
		Log:       1200, // a line each 50 ms: more is lost in the ring before anybody reads it
	}
}

// period is what limits count in.
const period = time.Minute

// Limited is the cause of an error where the same request may be made again
// later: its answer is 429 with Retry-After.
type Limited struct {
	Why   string        // "60 requests a minute"
	After time.Duration // when
}

func (l *Limited) Error() string { return fmt.Sprintf("the limit of %s is reached", l.Why) }

// window counts what was accepted within the last period.
type window struct {
	what string

	mu    sync.Mutex
	taken []time.Time // a ring of as many as are allowed, the oldest at next
	next  int
}

func newWindow(what string, limit int) *window {
	return &window{what: what, taken: make([]time.Time, limit)}
}

// take accepts one more, or returns a Limited.
func (w *window) take() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if len(w.taken) == 0 {
		return &Limited{Why: "no " + w.what + " at all", After: period}
	}
	if oldest := w.taken[w.next]; !oldest.IsZero() && now.Sub(oldest) < period {
		return &Limited{Why: fmt.Sprintf("%d %s a minute", len(w.taken), w.what), After: period - now.Sub(oldest)}
	}
	w.taken[w.next] = now
	w.next = (w.next + 1) % len(w.taken)
	return nil
}

package bridge

import (
	"fmt"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxRequests bounds an agent's concurrent requests. The guest's relay allows it as many
	// connections.
	maxRequests = 96
	// smallBody is the size up to which every request may hold its body in memory. An agent may
	// have largeBodies larger ones at a time; the others wait.
	smallBody   = 64 << 10
	largeBodies = 4
	// period is the time over which limits count.
	period = time.Minute
)

// Limited is the cause of errors for requests that may succeed later. The answer is 429 with
// Retry-After.
type Limited struct {
	Why   string        // "60 chats a minute"
	After time.Duration // when to retry
}

func (l *Limited) Error() string { return fmt.Sprintf("the limit of %s is reached", l.Why) }

func limited(why string, after time.Duration) error {
	return fault.New(fault.Rejected, "ask the bridge", "", &Limited{why, after}).Advise("Wait, and ask less often.")
}

// account tracks an agent's use of the bridge.
type account struct {
	windows  [len(config.BridgeLimits{})]Window
	strays   Window // tasks for other agents: refused, and recorded in the audit log
	requests chan struct{}
	large    chan struct{}
}

// begin counts a request; end must follow.
func (a *account) begin() error {
	select {
	case a.requests <- struct{}{}:
		return nil
	default:
		return limited(fmt.Sprintf("%d requests at a time", maxRequests), time.Second)
	}
}

func (a *account) end() { <-a.requests }

// accounts holds an account for each guest user that has had a token. Users are few and their ids
// are never reused.
type accounts struct {
	mu    sync.Mutex
	byUID map[uint32]*account
}

func (a *accounts) of(uid uint32) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byUID[uid] == nil {
		a.byUID[uid] = &account{requests: make(chan struct{}, maxRequests), large: make(chan struct{}, largeBodies)}
	}
	return a.byUID[uid]
}

// Window counts the calls accepted within the last minute. The zero Window is empty.
type Window struct {
	mu    sync.Mutex
	taken []time.Time // oldest first
}

// Take counts a call, or returns how long to wait if the limit is reached.
func (w *Window) Take(limit int) (after time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(w.taken) && now.Sub(w.taken[old]) >= period {
		old++
	}
	if w.taken = w.taken[old:]; len(w.taken) == 0 {
		w.taken = nil // frees the memory of a busy minute
	}
	switch n := len(w.taken); {
	case n < limit:
		w.taken = append(w.taken, now)
		return 0, true
	case limit == 0:
		return period, false
	default:
		return period - now.Sub(w.taken[n-limit]), false
	}
}

package bridge

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxRequests is how many requests of an agent are worked on at a time: one on
	// each connection that the relay lets its programs have (guest/relay maxOpen).
	maxRequests = 96
	// smallBody is what any request may have in memory; of larger bodies an
	// agent has at most largeBodies there at a time, the others wait.
	smallBody   = 64 << 10
	largeBodies = 4
)

// account is what an agent uses.
type account struct {
	windows  [buckets]window
	requests chan struct{}
	large    chan struct{}
}

// enter begins a request; leave ends it.
func (a *account) enter() error {
	select {
	case a.requests <- struct{}{}:
		return nil
	default:
		return limited(fmt.Sprintf("%d requests at a time", maxRequests), time.Second)
	}
}

func (a *account) leave() { <-a.requests }

// accounts has an account for each user of the guest that ever had a token. A
// user is never given to another agent, and there are few.
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

package bridge

import (
	"sync"
	"time"

	"osaurus-sandbox/fault"
)

const (
	// maxRequests is how many requests of an agent are worked on at a time.
	maxRequests = 64
	// smallBody is what any request may have in memory; of larger bodies an
	// agent has at most largeBodies there at a time, the others wait.
	smallBody   = 64 << 10
	largeBodies = 4
)

// account is what an agent uses.
type account struct {
	secrets, config, inference, http, dispatch, memory, log *window

	requests chan struct{}
	large    chan struct{}
}

func newAccount(l Limits) *account {
	return &account{
		secrets: newWindow("requests for secrets", l.Secrets), config: newWindow("requests for settings", l.Config),
		inference: newWindow("chats", l.Inference), http: newWindow("events and plugins", l.HTTP), dispatch: newWindow("tasks", l.Dispatch),
		memory: newWindow("requests to the memory", l.Memory), log: newWindow("lines", l.Log),
		requests: make(chan struct{}, maxRequests), large: make(chan struct{}, largeBodies),
	}
}

// enter begins a request; leave ends it.
func (a *account) enter() error {
	select {
	case a.requests <- struct{}{}:
		return nil
	default:
		return limited(&Limited{Why: "requests at a time", After: time.Second})
	}
}

func (a *account) leave() { <-a.requests }

// limited is the error of whoever has reached a limit.
func limited(cause error) error {
	return fault.New(fault.Rejected, "ask the bridge", "", cause).Advise("Wait, and ask less often.")
}

// accounts has an account for each user of the guest that ever had a token. A
// user is never given to another agent, and there are few.
type accounts struct {
	limits Limits
	mu     sync.Mutex
	byUID  map[uint32]*account
}

func newAccounts(l Limits) accounts { return accounts{limits: l, byUID: map[uint32]*account{}} }

func (a *accounts) of(uid uint32) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byUID[uid] == nil {
		a.byUID[uid] = newAccount(a.limits)
	}
	return a.byUID[uid]
}

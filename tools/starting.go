package tools

import (
	"context"
	"fmt"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Starting is the guest as a call may find it: not there yet. The call waits for it
// within its budget, and whoever called is told how far it is.
type Starting interface {
	// Follow tells how far it is until the guest runs, or the context ends. It tells
	// nothing of one that runs.
	Follow(ctx context.Context, tell func(Progress))
	// Pending is what is being done for the guest to run; "" if nothing is.
	Pending() string
}

// follow has whoever called be told how far the guest is, until the end.
func (r *Registry) follow(ctx context.Context, c *Call) (end func()) {
	if c.Tell == nil || r.Starting == nil {
		return func() {}
	}
	var mu sync.Mutex // nobody is told of two things at once
	tell := c.Tell
	c.Tell = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		tell(p)
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { r.Starting.Follow(ctx, c.Tell) })
	return func() {
		cancel()
		following.Wait()
	}
}

// overdue is what becomes of a call whose budget is over: it is not its fault if
// the guest is not there yet.
func (r *Registry) overdue(timeout error) error {
	if r.Starting == nil {
		return timeout
	}
	step := r.Starting.Pending()
	if step == "" {
		return timeout
	}
	return &Failure{
		Kind: fault.Unavailable, Cause: timeout, More: map[string]any{"reason": "sandbox_init_pending"},
		Message: fmt.Sprintf("the sandbox is still starting (%s), which goes on meanwhile: call again in a minute", step),
	}
}

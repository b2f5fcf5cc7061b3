package tools

import (
	"context"
	"fmt"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Starting reports the start of the guest to calls that wait for it.
type Starting interface {
	// Follow reports progress until the guest runs or the context ends. It reports nothing if the
	// guest already runs.
	Follow(ctx context.Context, tell func(Progress))
	// Pending describes the current step of the start, or is "" if the guest is not starting.
	Pending() string
}

// follow reports the start of the guest to the caller until end is called.
func (r *Registry) follow(ctx context.Context, c *Call) (end func()) {
	if c.Tell == nil || r.Starting == nil {
		return func() {}
	}
	var mu sync.Mutex // serializes the reports
	tell := c.Tell
	c.Tell = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		tell(p)
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { r.Starting(c.Agent).Follow(ctx, c.Tell) })
	return func() {
		cancel()
		following.Wait()
	}
}

// overdue replaces a timeout if the guest has not started yet.
func (r *Registry) overdue(a Agent, timeout error) error {
	if r.Starting == nil {
		return timeout
	}
	step := r.Starting(a).Pending()
	if step == "" {
		return timeout
	}
	return &Failure{
		Kind: fault.Unavailable, Cause: timeout, More: map[string]any{"reason": "sandbox_init_pending"},
		Message: fmt.Sprintf("the sandbox is still starting (%s), which goes on meanwhile: call again in a minute", step),
	}
}

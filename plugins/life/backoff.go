package life

import (
	"context"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

const (
	// askAgain is the first pause before another attempt. It doubles each time, up to askSeldom:
	// a keyring may be locked for hours.
	askAgain  = time.Second
	askSeldom = time.Minute
)

// backoff is the state between attempts of something that fails for the time being.
type backoff struct {
	logged string        // the last reason
	pause  time.Duration // before the next attempt
}

// passing reports whether the same may succeed later: the guest does not answer, the
// room is at a limit, the secrets are locked.
func passing(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Timeout, fault.Rejected:
		return true
	}
	return false
}

// gone reports whether the guest of a boot has ended, or there was none.
func (p *plugin) gone(boot string) bool { return boot == "" || p.of.Rooms.Boot() != boot }

// wait logs why something fails, unless the last entry said so, and returns after a pause or
// when now is closed.
func (p *plugin) wait(ctx context.Context, h *backoff, now <-chan struct{}, what string, err error) {
	if why := err.Error(); why != h.logged {
		h.logged = why
		p.log(ctx, bridge.Warn, what+": "+why)
	}
	h.pause = min(max(2*h.pause, askAgain), askSeldom)
	select {
	case <-now:
	case <-time.After(h.pause):
	case <-ctx.Done():
	}
}

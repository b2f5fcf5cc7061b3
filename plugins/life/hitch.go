package life

import (
	"context"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

const (
	// askAgain is the pause after something could not be done that may be possible soon: a
	// guest may be silent for a while.
	askAgain = time.Second
	// askSeldom is what the pause grows to, twice as long each time: a keyring may be locked
	// for hours.
	askSeldom = time.Minute
)

// hitch is what keeps something from being done for a while.
type hitch struct {
	told  string        // the reason, as it was last told
	pause time.Duration // before it is tried again
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

// gone reports that a guest has ended, or that there was none.
func (p *plugin) gone(boot string) bool { return boot == "" || p.of.Rooms.Boot() != boot }

// sit tells what is not done and why, unless that is what was told last, and returns when it
// may be tried again: after a pause, or with the bell.
func (p *plugin) sit(ctx context.Context, h *hitch, bell <-chan struct{}, what string, err error) {
	if why := err.Error(); why != h.told {
		h.told = why
		p.log(ctx, bridge.Warn, what+": "+why)
	}
	h.pause = min(max(2*h.pause, askAgain), askSeldom)
	select {
	case <-bell:
	case <-time.After(h.pause):
	case <-ctx.Done():
	}
}

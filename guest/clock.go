package guest

import (
	"context"
	"time"
)

// jumpCheck is how often KeepTime checks for a jump of the host's clock. jumpSize is the smallest
// difference that counts as one.
const (
	jumpCheck = time.Second
	jumpSize  = 500 * time.Millisecond
)

// KeepTime sets the guest's clock from the host's at once, then every so
// often, and promptly after the host slept or its clock was set. It returns
// when the context ends. A guest that does not answer is asked again later.
func (c *Client) KeepTime(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(min(every, jumpCheck))
	defer tick.Stop()
	var set time.Time // zero: at once
	last := time.Now()
	for {
		now := time.Now()
		if jumped(last, now, now.Sub(last)) {
			set = time.Time{} // until it succeeds
		}
		if now.Sub(set) >= every {
			if _, err := c.SetTime(ctx, time.Now()); err == nil {
				set = now
			}
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// jumped reports whether the wall clock and the monotonic clock moved by different amounts.
func jumped(last, now time.Time, lived time.Duration) bool {
	return (now.Round(0).Sub(last.Round(0)) - lived).Abs() >= jumpSize
}

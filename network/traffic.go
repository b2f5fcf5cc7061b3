package network

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what an agent and its plugins send and receive together. Zero is no limit.
type Limits struct {
	BytesPerSecond int64
	BytesPerDay    int64 // a day begins at midnight UTC; a new gateway begins at zero
}

var errDayOver = errors.New("the agent has used up its bytes of the day")

// trafficBurst is what passes at once, a few buffers of a relay.
const trafficBurst = 64 << 10

// traffic counts and slows an agent's bytes.
type traffic struct {
	speed *rate.Limiter

	mu    sync.Mutex
	limit Limits
	day   int64
	bytes int64 // since the day began
}

func newTraffic() *traffic { return &traffic{speed: rate.NewLimiter(rate.Inf, trafficBurst)} }

// set changes the limits, and reports whether the day's bytes are used up.
func (t *traffic) set(l Limits, now time.Time) (over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.BytesPerSecond != t.limit.BytesPerSecond {
		t.speed.SetLimit(rate.Inf)
		if l.BytesPerSecond > 0 {
			t.speed.SetLimit(rate.Limit(l.BytesPerSecond))
		}
	}
	t.limit = l
	return t.count(0, now)
}

// count adds bytes. The caller holds mu.
func (t *traffic) count(n int, now time.Time) (over bool) {
	if day := now.Unix() / int64(24*time.Hour/time.Second); day != t.day {
		t.day, t.bytes = day, 0
	}
	t.bytes += int64(n)
	return t.limit.BytesPerDay > 0 && t.bytes >= t.limit.BytesPerDay
}

// spend counts bytes that have passed and waits as the speed demands. It fails if the day's bytes
// are used up or the context ends.
func (t *traffic) spend(ctx context.Context, n int) error {
	t.mu.Lock()
	over := t.count(n, time.Now())
	t.mu.Unlock()
	if over {
		return errDayOver
	}
	for ; n > trafficBurst; n -= trafficBurst {
		if err := t.speed.WaitN(ctx, trafficBurst); err != nil {
			return err
		}
	}
	return t.speed.WaitN(ctx, n)
}

// pass counts a flow's bytes.
func (f *flow) pass(count *atomic.Int64, n int) error {
	count.Add(int64(n))
	f.touch()
	err := f.member.traffic.spend(f, n)
	if errors.Is(err, errDayOver) {
		f.cancel(err)
	}
	return err
}

// bound applies the agent's limits as they are now. It returns why the agent may begin nothing new, or "".
func (g *Gateway) bound(m *member, now time.Time) string {
	if g.options.Limits == nil {
		return ""
	}
	l := g.options.Limits(m.subject.Agent)
	if !m.traffic.set(l, now) {
		return ""
	}
	return fmt.Sprintf("the agent has used up its %d MB of today (limits.networkMBPerDay)", l.BytesPerDay>>20)
}

package bridge

import (
	"fmt"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Limited is the cause of an error where the same request may be made again
// later: its answer is 429 with Retry-After.
type Limited struct {
	Why   string        // "60 chats a minute"
	After time.Duration // when
}

func (l *Limited) Error() string { return fmt.Sprintf("the limit of %s is reached", l.Why) }

// limited is the error of whoever has reached a limit of the bridge's own.
func limited(why string, after time.Duration) error {
	return fault.New(fault.Rejected, "ask the bridge", "", &Limited{why, after}).Advise("Wait, and ask less often.")
}

// bucket is what is counted together.
type bucket int

const (
	ofSecrets bucket = iota
	ofConfig
	ofInference
	ofHTTP
	ofDispatch
	ofMisdirected // tasks for other agents: refused, and in the audit
	ofMemory
	ofLog
	buckets
)

// limit is how many of a bucket are accepted in a minute, and what they are
// called.
func (b bucket) limit(l config.BridgeLimits) (int, string) {
	switch b {
	case ofSecrets:
		return l.Secrets, "requests for secrets"
	case ofConfig:
		return l.Config, "requests for settings"
	case ofInference:
		return l.Inference, "chats"
	case ofHTTP:
		return l.HTTP, "events and plugins"
	case ofDispatch, ofMisdirected:
		return l.Dispatch, "tasks"
	case ofMemory:
		return l.Memory, "requests to the memory"
	default:
		return l.Log, "lines"
	}
}

// period is what limits count in.
const period = time.Minute

// window is what was accepted within the last period, the oldest first.
type window struct {
	mu    sync.Mutex
	taken []time.Time
}

// take accepts one more, or says after what time it would.
func (w *window) take(limit int) (after time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(w.taken) && now.Sub(w.taken[old]) >= period {
		old++
	}
	if w.taken = w.taken[old:]; len(w.taken) == 0 {
		w.taken = nil // what a busy minute took is given back
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

package machine

import (
	"fmt"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// coolDown is how long nothing starts by itself after a start failed: what
	// is broken seldom mends itself at once, and a boot costs the host much.
	coolDown = 120 * time.Second
	// maxFailures is how many starts may fail until only a person starts.
	maxFailures = 3
	// settled is how long a guest must have run for its end to be no failed start, and for
	// those before it to be forgiven.
	settled = 2 * time.Minute
)

// failures decide whether the guest may be started without a person having
// asked for it. A start by hand that works forgives them all, and so does a guest that settled.
type failures struct {
	count int
	until time.Time
}

func (f *failures) add()            { f.count, f.until = f.count+1, time.Now().Add(coolDown) }
func (f *failures) exhausted() bool { return f.count >= maxFailures }
func (f *failures) allow() bool     { return !f.exhausted() && !time.Now().Before(f.until) }

// mayBegin refuses a start that nobody asked for after too many that failed.
// The mutex is held.
func (s *Machine) mayBegin(by Cause) error {
	if !by.automatic() || s.failures.allow() {
		return nil
	}
	err := fmt.Errorf("the last start failed, and the next is not before %s", s.failures.until.Format(time.TimeOnly))
	if s.failures.exhausted() {
		err = fmt.Errorf("%d starts have failed, or the guest has ended within %v of them", s.failures.count, settled)
	}
	if s.status.Reason != "" {
		err = fmt.Errorf("%w: %s", err, s.status.Reason)
	}
	return fault.New(fault.Unavailable, "start guest", "", err).Advise("Start it by hand: `osaurus-sandbox up`.")
}

// count takes note of how an operation ended. The mutex is held.
func (s *Machine) count(op *operation, end State) {
	switch {
	case end == Running && !op.cause.automatic():
		s.failures = failures{}
	case end == Failed && op.command != Stop && op.command != Remove:
		s.failures.add()
	}
}

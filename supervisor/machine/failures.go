package machine

import (
	"fmt"
	"time"

	"osaurus-sandbox/internal/fault"
)

const (
	// coolDown is how long nothing is started automatically after a start
	// failed.
	coolDown = 120 * time.Second
	// maxFailures is how many starts may fail before only a person can start
	// the machine.
	maxFailures = 3
	// settled is how long a guest must have run for its end not to count as a
	// failed start, and for earlier failures to be forgiven.
	settled = 2 * time.Minute
)

// failures decides whether the guest may be started automatically. A
// successful start by a person resets it, and so does a guest that has
// settled.
type failures struct {
	count int
	until time.Time
}

func (f *failures) add()            { f.count, f.until = f.count+1, time.Now().Add(coolDown) }
func (f *failures) exhausted() bool { return f.count >= maxFailures }
func (f *failures) allow() bool     { return !f.exhausted() && !time.Now().Before(f.until) }

// mayBegin refuses an automatic start after too many failures. The mutex is
// held.
func (s *Machine) mayBegin(by Cause) error {
	if !by.automatic() || s.failures.allow() {
		return nil
	}
	err := fmt.Errorf("the last start failed; the next automatic start is possible at %s", s.failures.until.Format(time.TimeOnly))
	if s.failures.exhausted() {
		err = fmt.Errorf("%d starts failed, or their guest ended within %v", s.failures.count, settled)
	}
	if s.status.Reason != "" {
		err = fmt.Errorf("%w: %s", err, s.status.Reason)
	}
	return fault.New(fault.Unavailable, "start guest", "", err).Advise("Start it yourself: `osaurus-sandbox up`.")
}

// count records how an operation ended. The mutex is held.
func (s *Machine) count(op *operation, end State) {
	switch {
	case end == Running && !op.cause.automatic():
		s.failures = failures{}
	case end == Failed && op.command != Stop && op.command != Remove:
		s.failures.add()
	}
}

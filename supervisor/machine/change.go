package machine

import (
	"time"

	"osaurus-sandbox/internal/fault"
)

// set changes the state, records the reason and notifies everyone who waits.
// Nothing else changes the state. The mutex is held.
func (s *Machine) set(to State, by Cause, reason error) {
	from := s.status.State
	now := time.Now()
	s.status.State, s.status.Since, s.status.Cause = to, now, by
	s.status.Reason, s.status.Advice, s.status.Kind = "", "", ""
	if reason != nil {
		s.status.Reason, s.status.Advice, s.status.Kind = reason.Error(), fault.AdviceOf(reason), fault.KindOf(reason)
	}
	s.touch()
	s.note(Event{Time: now, Kind: StateChanged, From: from, To: to, Cause: by, Detail: s.status.Reason})
}

// touch notifies everyone who waits for a change of the status. The mutex is
// held.
func (s *Machine) touch() {
	s.status.Revision++
	s.changed.Notify()
}

// note records an event.
func (s *Machine) note(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if s.record != nil {
		s.record.Record(e)
	}
}

// snapshot returns a copy of the status. The mutex is held.
func (s *Machine) snapshot() Status {
	status := s.status
	status.Commands = s.busy
	if s.tracker != nil {
		steps := s.tracker.Status()
		status.Progress = &steps
	}
	status.IdleStop = s.idleStop()
	status.Failures, status.CoolUntil, status.NeverAgain = s.failures.count, s.failures.until, s.failures.exhausted()
	return status
}

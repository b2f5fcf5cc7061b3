package machine

import (
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

// Status describes a machine, from memory.
type Status struct {
	// Revision counts the changes of the status: see Machine.Next.
	Revision uint64

	State State
	Since time.Time
	Cause Cause
	// Reason and Advice say why the machine is Failed, Unresponsive,
	// SetupRequired or NotProvisioned, or was not started automatically.
	Reason, Advice string
	Kind           fault.Kind // of the reason; empty without one

	// Operation is the operation in progress, or empty.
	Operation Command
	// Progress is that of the current operation, or of the last one with
	// steps.
	Progress *progress.Status

	// Accelerator runs the guest's instructions ("kvm", "tcg"). It is
	// empty if this computer cannot run machines.
	Accelerator string
	// Machine describes the last boot; nil before the first one.
	Machine *boot.Machine
	// StartedAt is when the running guest became ready, or zero.
	StartedAt time.Time
	// AnsweredAt is when the running guest last answered, or zero.
	AnsweredAt time.Time
	// Guest is the last report of the running guest, from GuestAt, or nil.
	Guest   *guest.Info
	GuestAt time.Time
	// Commands counts the commands that run in the guest.
	Commands int
	// IdleStop is when the unused guest will be stopped, or zero.
	IdleStop time.Time

	// Failures counts failed starts since the last success: see failures.
	// Until CoolUntil nothing is started automatically, and with NeverAgain
	// only a person can start it.
	Failures   int
	CoolUntil  time.Time
	NeverAgain bool
}

// set changes the state, records the reason and notifies everyone who waits.
// Nothing else changes the state. The mutex is held.
func (s *Machine) set(to State, by Cause, reason error) {
	from := s.status.State
	s.status.State, s.status.Since, s.status.Cause = to, time.Now(), by
	s.status.Reason, s.status.Advice, s.status.Kind = "", "", ""
	if reason != nil {
		s.status.Reason, s.status.Advice, s.status.Kind = reason.Error(), fault.AdviceOf(reason), fault.KindOf(reason)
	}
	s.touch()
	s.note(StateChanged, by, map[string]string{"from": string(from), "to": string(to), "detail": s.status.Reason})
}

// touch notifies everyone who waits for a change of the status. The mutex is
// held.
func (s *Machine) touch() {
	s.status.Revision++
	s.changed.Notify()
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

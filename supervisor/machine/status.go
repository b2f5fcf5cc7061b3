package machine

import (
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

// Status is all that is known of the sandbox, from memory.
type Status struct {
	// Revision counts the changes of the status: see Supervisor.Next.
	Revision uint64

	State State
	Since time.Time
	Cause Cause
	// Reason and Advice say why the sandbox is Failed, Unresponsive,
	// SetupRequired or NotProvisioned, or why it was not started by itself.
	Reason, Advice string
	Kind           fault.Kind // of the reason; empty without one

	// Operation is what is under way, or empty.
	Operation Command
	// Progress is that of the operation, or of the last one that had steps.
	Progress *progress.Status

	// Accelerator is what runs the guest's instructions ("kvm", "tcg"), or
	// empty where this host cannot run machines.
	Accelerator string
	// Machine is what runs, or ran last; nil before the first boot.
	Machine *boot.Machine
	// StartedAt is when the guest that runs was ready; zero if none runs.
	StartedAt time.Time
	// AnsweredAt is when the guest last answered; zero if none runs.
	AnsweredAt time.Time
	// Guest is what the guest last said of itself, at GuestAt; nil if none runs.
	Guest   *guest.Info
	GuestAt time.Time
	// Commands counts the commands that run in the guest for callers of Exec.
	Commands int
	// IdleStop is when an unused guest is stopped; zero if it is not.
	IdleStop time.Time

	// Failures counts the starts that failed, or whose guest soon ended, since the
	// last one by hand that worked, or guest that settled. CoolUntil is when the next one that no person asks for may be,
	// and NeverAgain says that it takes a person.
	Failures   int
	CoolUntil  time.Time
	NeverAgain bool
}

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

	// Accelerator is what runs the guest's instructions ("kvm", "tcg"), or
	// empty if this computer cannot run machines.
	Accelerator string
	// Machine is what runs, or ran last; nil before the first boot.
	Machine *boot.Machine
	// StartedAt is when the running guest became ready, or zero.
	StartedAt time.Time
	// AnsweredAt is when the running guest last answered, or zero.
	AnsweredAt time.Time
	// Guest is what the running guest last reported, at GuestAt, or nil.
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

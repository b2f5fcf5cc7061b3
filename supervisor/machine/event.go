package machine

import (
	"time"

	"osaurus-sandbox/supervisor/events"
)

// Cause says why something happened: one of those below, or a description of
// the caller ("cli: up, uid 1000").
type Cause string

// Causes without a person. Starts with these causes are limited: see
// Status.Failures.
const (
	CauseAutoStart Cause = "auto start"    // the setting
	CauseDemand    Cause = "on demand"     // a command was to be run
	CauseWatchdog  Cause = "watchdog"      // the machine died or its guest fell silent
	CauseIdle      Cause = "idle"          // nobody used it for as long as the setting says
	CauseGuest     Cause = "guest"         // it powered itself off
	CauseClose     Cause = "closing"       // the daemon ends
	CauseHost      Cause = "host"          // this computer slept, its clock was set, or its disk is full
	CauseBegin     Cause = "daemon starts" // the first state of a machine
)

// automatic reports whether no person asked for a start with this cause.
func (c Cause) automatic() bool {
	return c == CauseAutoStart || c == CauseDemand || c == CauseWatchdog
}

// The kinds of events.
const (
	StateChanged    events.Kind = "state"            // "from" became "to"
	HostSlept       events.Kind = "host_slept"       // the detail says for how long; the guest's clock is set
	SettingChanged  events.Kind = "setting"          // the detail is the key
	OperationFailed events.Kind = "operation_failed" // the detail says why
	OwnerGone       events.Kind = "owner_gone"       // the detail names the program that had the home before and was killed
)

// note records an event.
func (s *Machine) note(kind events.Kind, by Cause, fields map[string]string) {
	if s.record != nil {
		s.record.Note(events.Event{Kind: kind, Time: time.Now(), Cause: string(by), Fields: fields})
	}
}

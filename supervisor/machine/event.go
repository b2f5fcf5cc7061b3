package machine

import "time"

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

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	StateChanged    EventKind = "state"            // From became To
	HostSlept       EventKind = "host_slept"       // Detail says for how long; the guest's clock is set
	SettingChanged  EventKind = "setting"          // Detail is the key
	OperationFailed EventKind = "operation_failed" // Detail says why
	OwnerGone       EventKind = "owner_gone"       // Detail names the program that had the home before and was killed
)

// Event is something that happened to the machine.
type Event struct {
	Time     time.Time
	Kind     EventKind
	From, To State // of StateChanged
	Cause    Cause
	Detail   string
}

// Recorder records events. It is called in order, from any goroutine, and must
// not block.
type Recorder interface {
	Record(e Event)
}

package machine

// State is the state of a machine. In Provisioning, Starting and Stopping an
// operation is in progress; it ends in one of the others.
type State string

const (
	SetupRequired  State = "setup_required"  // this host lacks something that machines need
	NotProvisioned State = "not_provisioned" // nothing to boot from
	Provisioning   State = "provisioning"    // the files for a boot are being made
	Stopped        State = "stopped"
	Starting       State = "starting"
	Running        State = "running"
	Unresponsive   State = "unresponsive" // the machine runs, its guest does not answer
	Stopping       State = "stopping"     // also while a sandbox is removed
	Failed         State = "failed"       // with a reason
)

// HasGuest reports whether a guest runs, even if it does not answer.
func (s State) HasGuest() bool { return s == Running || s == Unresponsive }

// Command is a command to a Machine.
type Command string

const (
	Provision Command = "provision" // check and make all that a boot needs, then start
	Start     Command = "start"
	Stop      Command = "stop"
	Restart   Command = "restart"
	Reset     Command = "reset"   // begin with an empty data disk; the workspace is kept
	Remove    Command = "remove"  // disk and images go; the workspace is kept
	Exec      Command = "exec"    // run a command in the guest
	Offline   Command = "offline" // do something while no guest runs
)

// answer is how a command is handled in a state.
type answer int

const (
	refuse    answer = iota // it cannot be done; the reason says why
	already                 // it is done
	begin                   // an operation begins
	join                    // wait for the operation that is under way and share its result
	wait                    // look again when the state has changed
	interrupt               // end the operation that is under way, then look again
)

// answerTo returns how a command is handled in a state, unless the operation
// in progress serves it already.
func answerTo(c Command, s State) answer {
	return map[State]map[Command]answer{
		SetupRequired:  {Provision: begin, Start: begin, Stop: already, Restart: begin, Reset: refuse, Remove: begin, Exec: refuse, Offline: begin},
		NotProvisioned: {Provision: begin, Start: begin, Stop: already, Restart: begin, Reset: refuse, Remove: begin, Exec: refuse, Offline: begin},
		Provisioning:   {Provision: wait, Start: wait, Stop: interrupt, Restart: wait, Reset: interrupt, Remove: interrupt, Exec: wait, Offline: wait},
		Stopped:        {Provision: begin, Start: begin, Stop: already, Restart: begin, Reset: begin, Remove: begin, Exec: begin, Offline: begin},
		Starting:       {Provision: wait, Start: wait, Stop: interrupt, Restart: wait, Reset: interrupt, Remove: interrupt, Exec: wait, Offline: wait},
		Running:        {Provision: already, Start: already, Stop: begin, Restart: begin, Reset: begin, Remove: begin, Exec: already, Offline: begin},
		Unresponsive:   {Provision: begin, Start: begin, Stop: begin, Restart: begin, Reset: begin, Remove: begin, Exec: refuse, Offline: begin},
		Stopping:       {Provision: wait, Start: wait, Stop: wait, Restart: wait, Reset: wait, Remove: wait, Exec: wait, Offline: wait},
		Failed:         {Provision: begin, Start: begin, Stop: begin, Restart: begin, Reset: begin, Remove: begin, Exec: begin, Offline: begin},
	}[s][c]
}

// serves reports whether an operation for one command also serves another, so that
// its caller can join it.
func (c Command) serves(asked Command) bool {
	switch asked {
	case Offline:
		return false // each caller has its own work
	case c:
		return true
	case Start, Exec:
		return c == Provision || c == Start || c == Restart
	case Restart:
		return c == Provision || c == Start // it has only just begun
	}
	return false
}

package machine

// State is the state of a machine. In Provisioning, Starting and Stopping an
// operation is in progress; it ends in one of the others.
type State string

const (
	SetupRequired  State = "setup_required"  // this host lacks something that machines need
	NotProvisioned State = "not_provisioned" // nothing to boot from yet, or no more
	Provisioning   State = "provisioning"    // what is booted is being made
	Stopped        State = "stopped"
	Starting       State = "starting"
	Running        State = "running"
	Unresponsive   State = "unresponsive" // the machine runs, its guest does not answer
	Stopping       State = "stopping"     // also while what a removed sandbox leaves is cleared away
	Failed         State = "failed"       // with a reason
)

// HasGuest reports whether a guest runs, even if it does not answer.
func (s State) HasGuest() bool { return s == Running || s == Unresponsive }

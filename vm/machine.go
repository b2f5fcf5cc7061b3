// Package vm defines virtual machines and their drivers: a Driver makes a Machine from a Config.
package vm

import (
	"context"
	"net"
)

// Driver makes machines on this host.
type Driver interface {
	// Capabilities says what machines of an architecture can do on this host. It
	// fails with fault.Unavailable and advice if the host cannot run any.
	Capabilities(ctx context.Context, arch Arch) (Capabilities, error)
	// New validates the configuration and returns a stopped machine. The caller must
	// Close it.
	New(ctx context.Context, cfg Config) (Machine, error)
}

// Capabilities is what a driver can do on this host. Callers adapt to it instead of
// switching on the driver's name.
type Capabilities struct {
	Accelerator string      // "kvm", "tcg", "apple"
	ResetEnds   bool        // a guest's reboot or panic ends its machine; without, the guest may only stop answering
	Ownership   []Ownership // of shares; the first is the default
}

// Machine is one run of a virtual machine: it starts once and ends once. Methods may be
// called from any goroutine. They fail with fault.Rejected if the state does not allow
// them.
type Machine interface {
	// Start powers the machine on and returns when its processors run. The context
	// bounds only the start. If Start fails, the machine has ended.
	Start(ctx context.Context) error
	// RequestStop presses the power button, which the guest may ignore. To stop a
	// machine, use Shutdown.
	RequestStop(ctx context.Context) error
	// Kill ends the machine at once and returns when it is gone. It does nothing if
	// the machine is not running.
	Kill(ctx context.Context) error
	// State returns the current state. It never blocks.
	State() State
	// Done is closed when the machine has ended and released its devices. It is also
	// closed when a killed machine does not end in time and may still have its disks
	// open: then Kill and Close fail until it is gone.
	Done() <-chan struct{}
	// Err says why the machine ended. It is nil before Done is closed, after Kill or
	// Close, and after the guest powered off or, with ResetEnds, rebooted. After a
	// kernel panic, the error quotes the console.
	Err() error

	// Stalled says why the machine has paused by itself, with advice, or returns nil.
	// The machine resumes when the cause is gone.
	Stalled() error
	// Warnings say what has failed in a machine that goes on, such as a lost network,
	// with advice.
	Warnings() []string

	// Dial connects to an AF_VSOCK port of the guest. It waits until the guest has
	// loaded its vsock driver, the context ends (fault.Timeout for a deadline) or the
	// machine ends. If nothing listens on the port, it fails at once with
	// fault.Unavailable wrapping ECONNREFUSED.
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	// Listen accepts the guest's connections to an AF_VSOCK port of the host. It may
	// be called before Start. Accept returns net.ErrClosed after the listener is
	// closed or the machine has ended.
	Listen(port uint32) (net.Listener, error)

	// Close kills the machine if it runs, and returns when all its processes, sockets
	// and descriptors are gone. It may be called again.
	Close() error
}

// State is a machine's state.
type State string

const (
	Stopped  State = "stopped"  // not started, or ended without an error
	Starting State = "starting" // Start was called
	Running  State = "running"  // its processors run, or it has stalled
	Failed   State = "failed"   // ended with an error
)

// Ended reports whether a started machine in this state has ended.
func (s State) Ended() bool { return s == Stopped || s == Failed }

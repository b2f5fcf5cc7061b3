// Package vm is what a virtual machine is to the rest of the program: a Driver makes Machines from a Config, and callers never ask which driver it is.
package vm

import (
	"context"
	"net"
)

// Driver makes machines on this host.
type Driver interface {
	// Name is the driver's name: "qemu", "vz".
	Name() string
	// Capabilities says what machines of this driver can do on this host for
	// the given architecture. It asks the host, so it may take a moment; it
	// fails with fault.Unavailable and advice where nothing can be run.
	Capabilities(ctx context.Context, arch Arch) (Capabilities, error)
	// New validates the configuration and prepares a machine, which is
	// Stopped. Whatever is wrong with the configuration is found here and
	// not by Start. Nothing runs yet; Close must be called.
	New(ctx context.Context, cfg Config) (Machine, error)
}

// Capabilities is what a driver can do here. Callers adapt to it and never
// switch on the driver's name.
type Capabilities struct {
	Accelerator string        // "kvm", "tcg", "apple"
	ResetEnds   bool          // a guest that reboots or panics ends its machine; elsewhere it may only fall silent
	Ownership   []Ownership   // the policies that shares can have, the default first
	Network     []NetworkKind // the kinds of network there are
}

// Machine is one run of a virtual machine: it is started once, ends once, and
// is then only good for Close. All methods may be called from any goroutine
// and in any state; one that does not fit the state fails with fault.Rejected.
type Machine interface {
	// Start powers the machine on and returns when its processors run. The
	// context bounds the start only, not the machine's life. A start that
	// fails ends the machine.
	Start(ctx context.Context) error
	// RequestStop presses the power button. The guest may ignore it: see
	// Shutdown for the way to stop a machine.
	RequestStop(ctx context.Context) error
	// Kill ends the machine at once, as if its cable were pulled, and
	// returns when it is gone, or fails. Killing a stopped machine is fine.
	Kill(ctx context.Context) error
	// Pause stops the machine's processors; Resume lets them go on.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// State is the present state, from memory: it never blocks.
	State() State
	// Watch delivers every change of state from now on, in order, until the
	// context ends or the machine has ended, then closes the channel. A slow
	// reader delays only itself and loses nothing.
	Watch(ctx context.Context) <-chan State
	// Done is closed when the machine has ended, orderly or not, and its
	// devices are gone; and when one that was killed and does not end is given
	// up, which may still have its disks open. Kill and Close say so of that
	// one, as long as it is there.
	Done() <-chan struct{}
	// Err is nil before Done is closed and after an orderly end; otherwise
	// it says why the machine ended. An end by Kill or Close is orderly, and
	// so is a guest that powers off or, with ResetEnds, reboots. A guest
	// kernel's panic is not: its error quotes the end of the console.
	Err() error

	// Stalled says why the machine makes no progress although nobody paused it, with
	// advice, or nil. It is Paused then, and goes on by itself when the cause is gone.
	Stalled() error

	// Dial connects to an AF_VSOCK port of the guest. It waits while the
	// guest has no vsock driver yet, until the context ends (fault.Timeout for
	// a deadline) or the machine does. It fails at once, as fault.Unavailable
	// with ECONNREFUSED in its chain, when nothing listens on the port.
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	// Listen accepts the guest's connections to an AF_VSOCK port of the
	// host. It may be called before Start. The peer's port is in the
	// connection's RemoteAddr. Accept returns net.ErrClosed after Close, and
	// when the machine has ended. A closed listener's port is free again.
	Listen(port uint32) (net.Listener, error)

	// Close kills the machine if it runs and releases everything that it
	// held. It returns when Done is closed and no process, socket or
	// descriptor is left, or fails because something is. A second Close
	// does nothing more.
	Close() error
}

// State is where a machine is in its life.
type State string

const (
	Stopped  State = "stopped"  // not started, or ended orderly
	Starting State = "starting" // Start was called
	Running  State = "running"  // its processors run
	Pausing  State = "pausing"
	Paused   State = "paused"
	Resuming State = "resuming"
	Stopping State = "stopping" // it is ending
	Failed   State = "failed"   // it ended in a way nobody asked for
)

// Ended reports whether a machine in this state, once started, is over.
func (s State) Ended() bool { return s == Stopped || s == Failed }

package machine

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/boot"
)

// Backend does everything that touches the disk, a virtual machine or the
// network for a Machine, which itself only decides. Its methods are called one
// at a time, unless they say otherwise.
type Backend interface {
	// Check returns the accelerator of machines on this computer. If it can run
	// none, it fails with Unavailable and advice. A Check precedes any Boot.
	Check(ctx context.Context) (accelerator string, err error)
	// Provisioned reports whether Prepare has succeeded since the last Remove.
	// It is quick, and may be called at any time.
	Provisioned() bool
	// Ready reports whether a boot with these settings needs no long
	// preparation. It is quick.
	Ready(s config.Settings) bool
	// Prepare makes the files that a boot with these settings needs. With fresh, it
	// verifies everything and replaces broken parts.
	Prepare(ctx context.Context, s config.Settings, fresh bool, tracker *progress.Tracker) error
	// Boot boots the prepared files and returns when the guest is ready for
	// commands. Nothing is left behind if it fails.
	Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (Guest, boot.Machine, error)
	// Reset removes the guest's changes outside of the workspace. No guest runs.
	// Prepare then starts with an empty data disk.
	Reset(ctx context.Context) error
	// Remove removes the data disk and everything made for booting. No guest
	// runs.
	Remove(ctx context.Context) error
}

// Guest is a running machine whose guest has answered. Its methods may be
// called by many goroutines at once.
type Guest interface {
	// Engine runs the rooms of agents in it.
	engine.Engine
	// Gateway is the other end of its network, or nil if it has none.
	Gateway() *network.Gateway
	// Ping returns when the guest has answered.
	Ping(ctx context.Context) error
	// Info asks the guest for its state.
	Info(ctx context.Context) (*guest.Info, error)
	// Stalled says why the machine makes no progress although nobody paused it,
	// or nil: see vm.Machine.
	Stalled() error
	// Shutdown ends all programs in the guest, writes everything to its disks and
	// powers it off, by force if it does not obey. It returns when nothing is left.
	Shutdown(ctx context.Context) error
	// Close ends the machine by force. It may be called more than once.
	Close() error
	// Done is closed when the machine has ended. Err then says why, unless it was
	// asked to: see vm.Machine.
	Done() <-chan struct{}
	Err() error
}

// local is the Backend that works on this computer.
type local struct{ *boot.Site }

// Boot implements Backend.
func (l local) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (Guest, boot.Machine, error) {
	return l.Site.Boot(ctx, s, tracker)
}

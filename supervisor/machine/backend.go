package machine

import (
	"context"
	"io"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

// Backend is everything that touches the home's disk, a machine or the
// network for a supervisor, which itself only decides. Its methods are called
// one at a time, but for those that say otherwise.
type Backend interface {
	// Check asks whether this host can run machines and names what runs
	// their instructions. It fails with fault.Unavailable and advice. There is
	// one that worked before any Boot.
	Check(ctx context.Context) (accelerator string, err error)
	// Provisioned reports whether Prepare has been through since the last
	// Remove. It is quick, and may be called at any time.
	Provisioned() bool
	// Ready reports whether a boot with these settings needs nothing that
	// takes long to make. It is quick.
	Ready(s config.Settings) bool
	// Prepare makes what a boot with these settings needs and is not there.
	// With fresh, it trusts nothing that can be made again: all is verified
	// and made anew where it is broken.
	Prepare(ctx context.Context, s config.Settings, fresh bool, tracker *progress.Tracker) error
	// Boot boots what was prepared and returns when the guest is ready for
	// commands. Nothing is left behind if it fails.
	Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (Guest, boot.Machine, error)
	// Reset removes what the guest has changed outside the workspace. No guest
	// runs. Prepare then begins with an empty data disk.
	Reset(ctx context.Context) error
	// Remove removes the data disk and all that was made to boot. No guest runs.
	Remove(ctx context.Context) error
}

// Guest is a machine whose guest answered. Its methods may be called from any
// goroutine.
type Guest interface {
	// Ping returns when the guest has answered.
	Ping(ctx context.Context) error
	// Info asks the guest how it is.
	Info(ctx context.Context) (guest.Info, error)
	// Exec starts a command: see guest.Client.
	Exec(ctx context.Context, cmd engine.Command) (Process, error)
	// Rooms is what it does for agents.
	Rooms() Rooms
	// Shells and Jobs are what it has of them.
	Shells() Shells
	Jobs() Jobs
	// Files is how it touches those of agents.
	Files() Files
	// Waited is for how long its machine could have run and had no processor of this host,
	// or 0 where nobody can tell: see vm.Machine.
	Waited() time.Duration
	// Standstill is why its machine stands still although nobody paused it, until that is over;
	// nil while it does not: see vm.Machine.
	Standstill() error
	// Shutdown ends what runs in the guest, has it write everything to its
	// disks and power off; a guest that does not obey is ended the hard way.
	// It returns when nothing is left.
	Shutdown(ctx context.Context) error
	// Close ends the machine at once. It returns when nothing is left, or fails.
	// It may be called more than once.
	Close() error
	// Done is closed when the machine has ended or was given up, and Err then
	// says why, if nobody asked for it: see vm.Machine.
	Done() <-chan struct{}
	Err() error
}

// Rooms is what a guest does for agents: see guest.Client.
type Rooms interface {
	EnsureRoom(ctx context.Context, r engine.RoomConfig, token string) (engine.Ensured, error)
	SetRoomLimits(ctx context.Context, user config.LinuxUser, l engine.Limits) error
	ResetRoom(ctx context.Context, user config.LinuxUser) error
	RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error
	RoomUsages(ctx context.Context, user config.LinuxUser) ([]engine.RoomUsage, error)
	RoomProcesses(ctx context.Context, user config.LinuxUser) (list []engine.RoomProcess, more bool, err error)
}

// Shells are the persistent shells of a guest: see guest.Client.
type Shells interface {
	RunShell(ctx context.Context, cmd engine.ShellCommand) (engine.ShellResult, error)
	CancelShell(ctx context.Context, user config.LinuxUser, id config.SessionID, which config.CallID) error
	AttachShell(ctx context.Context, shell engine.Shell, size engine.TerminalSize, output io.Writer) (*guest.Attachment, error)
	Sessions(ctx context.Context, user config.LinuxUser) ([]engine.Session, error)
	Transcript(ctx context.Context, user config.LinuxUser, id config.SessionID) (text string, version uint64, err error)
	CloseSession(ctx context.Context, user config.LinuxUser, id config.SessionID) (int, error)
}

// Jobs are the background commands of a guest: see guest.Client.
type Jobs interface {
	StartJob(ctx context.Context, cmd engine.JobCommand) (engine.Job, error)
	Jobs(ctx context.Context, user config.LinuxUser) ([]engine.Job, error)
	Job(ctx context.Context, user config.LinuxUser, id config.JobID) (engine.Job, error)
	WaitJob(ctx context.Context, user config.LinuxUser, id config.JobID, wait time.Duration) (engine.Job, error)
	KillJob(ctx context.Context, user config.LinuxUser, id config.JobID, hard bool) (engine.Job, error)
	TailJob(ctx context.Context, user config.LinuxUser, id config.JobID, offset uint64, wait time.Duration) (engine.JobTail, error)
	TailJobEnd(ctx context.Context, user config.LinuxUser, id config.JobID, n uint64) (engine.JobTail, error)
}

// Files are the files of agents in a guest: see guest.Client.
type Files interface {
	StatFile(ctx context.Context, f engine.File) (engine.FileInfo, error)
	ListFolder(ctx context.Context, f engine.File, limit int) (list []engine.FolderEntry, more bool, err error)
	ReadFile(ctx context.Context, f engine.File, part engine.FilePart, to io.Writer) (engine.FileRead, error)
	WriteFile(ctx context.Context, f engine.File, w engine.FileWrite) (engine.FileWritten, error)
	DigestFiles(ctx context.Context, folder engine.File, limit uint64, paths []string) ([]engine.FileDigest, error)
	SearchFiles(ctx context.Context, f engine.File, s engine.FileSearch, tell func(engine.FileMatch) error) (engine.SearchEnd, error)
}

// Process is a command that runs in the guest: a *guest.Process.
type Process interface {
	PID() int
	Resize(engine.TerminalSize) error
	Signal(ctx context.Context, s engine.Signal) error
	Done() <-chan struct{}
	Wait() (engine.Exit, error)
}

package engine

import (
	"context"
	"io"
	"time"

	"osaurus-sandbox/config"
)

// Engine runs the rooms of agents: one virtual machine, for example. Its
// methods may be called by many goroutines at once. Their errors are faults.
type Engine interface {
	// EnsureRoom makes a room as described, or changes the limits, the network and the
	// trust of one that is there. What runs in the room goes on. The token is what the room's programs show to
	// the bridge; a new one replaces the old one. It fails with Rejected if the
	// user has a room or a layer with another uid or home.
	EnsureRoom(ctx context.Context, room RoomConfig, token string) (Ensured, error)
	// ResetRoom ends everything in a room and discards what was changed there
	// outside of the home. The next EnsureRoom makes the room again.
	ResetRoom(ctx context.Context, user config.LinuxUser) error
	// RemoveRoom ends everything in a room and forgets it, with layer also its
	// files. It succeeds if there is no such room.
	RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error
	// RoomUsages returns the usage of a user's room, or of all rooms.
	RoomUsages(ctx context.Context, user config.LinuxUser) ([]RoomUsage, error)
	// RoomProcesses lists the processes in a user's room, or in all rooms, and
	// says whether there are more than it lists. Unless folder is empty, it also
	// lists what they have open in that folder of the room.
	RoomProcesses(ctx context.Context, user config.LinuxUser, folder string) (list []RoomProcess, more bool, err error)

	// ConnectPort connects to a port on the loopback of a user's room. The end of
	// ctx ends the connection. It fails with NotFound if nothing listens, and with
	// Rejected if too many connections are open.
	ConnectPort(ctx context.Context, user config.LinuxUser, port config.Port) (Connection, error)

	// Room returns the room of a user, which EnsureRoom has made. It does no
	// I/O. The user Root is the machine's own administrator.
	Room(user config.LinuxUser) Room
}

// Root is the user of an engine who is in no room.
const Root config.LinuxUser = ""

// Room is where the programs of one agent run.
type Room interface {
	Executor
	Files
	Shells
	Jobs
}

// Executor runs commands.
type Executor interface {
	// Exec starts a command and returns when it runs. The end of ctx ends the command
	// with everything that it started. What its first process leaves behind is ended
	// too.
	//
	// It fails with NotFound if there is no such program or folder, Rejected if
	// the program cannot be executed or too many commands run, and InvalidArgs
	// if the command is malformed.
	Exec(ctx context.Context, cmd Command) (Process, error)
}

// Connection is a TCP connection to a server in a room. Read ends with io.EOF when the server has
// ended its side. Reading and writing may be done at once, each by one goroutine.
type Connection interface {
	io.ReadWriteCloser
	// CloseWrite ends what the server receives. What it sends can still be read.
	CloseWrite() error
}

// Process is a command that runs in a room.
type Process interface {
	// PID is the process id as the room sees it.
	PID() int
	// Resize changes the size of the command's terminal, if it has one.
	Resize(size TerminalSize) error
	// Signal sends a signal to the command's process group. It fails with
	// NotFound when the command has ended.
	Signal(ctx context.Context, s Signal) error
	// Done is closed when Wait would not block.
	Done() <-chan struct{}
	// Wait returns when the command has ended and all its output is written. It
	// may be called more than once. An exit code other than 0 is not an error; an
	// error says that the end is not known, or that output could not be written.
	Wait() (Exit, error)
}

// Files reads and writes the files of a room as its user. Calls fail with
// NotFound, with InvalidArgs for a path that leads out of its root, and with
// Rejected for files that the user may not access.
type Files interface {
	StatFile(ctx context.Context, file File) (FileInfo, error)
	// ListFolder lists a folder by name and says whether there is more than limit.
	ListFolder(ctx context.Context, folder File, limit int) (list []FolderEntry, more bool, err error)
	ReadFile(ctx context.Context, file File, part FilePart, to io.Writer) (FileRead, error)
	// WriteFile writes all of a file, or leaves it unchanged.
	WriteFile(ctx context.Context, file File, w FileWrite) (FileWritten, error)
	// SearchFiles calls found for each match, and ends with the first error of found.
	SearchFiles(ctx context.Context, file File, s FileSearch, found func(FileMatch) error) (SearchEnd, error)
}

// Shells are the persistent shells of a room.
type Shells interface {
	// RunShell runs a command in a session's shell and waits for it. When ctx
	// ends, so does the command, but not the session. It fails with Unavailable
	// if the shell was busy until the timeout, and with Rejected if there are too
	// many sessions or waiting commands.
	RunShell(ctx context.Context, cmd ShellCommand) (ShellResult, error)
	// CancelShell ends the command that runs in a session, or one call, also while
	// that waits. It returns when it has ended, and fails with NotFound if there
	// is none.
	CancelShell(ctx context.Context, id config.SessionID, call config.CallID) error
	// AttachShell connects a terminal to a session's shell. It writes the recent
	// transcript to output, then what the shell shows. When ctx ends or the
	// attachment is closed, the shell goes on.
	AttachShell(ctx context.Context, shell Shell, size TerminalSize, output io.Writer) (Attachment, error)
	// Sessions lists the sessions, for Root those of all rooms.
	Sessions(ctx context.Context) ([]Session, error)
	// Transcript returns the end of what was typed and shown in a session,
	// without control sequences. Its version grows with every change.
	Transcript(ctx context.Context, id config.SessionID) (text string, version uint64, err error)
	// CloseSession ends a session and everything in it, or all of them if id is
	// empty, and returns how many there were.
	CloseSession(ctx context.Context, id config.SessionID) (int, error)
}

// Attachment is a terminal that is connected to a shell. What is written to it
// is typed there. Close disconnects it.
type Attachment interface {
	io.WriteCloser
	// Resize changes the terminal's size for everyone who is attached.
	Resize(size TerminalSize) error
	// Done is closed when Wait would not block.
	Done() <-chan struct{}
	// Wait returns when the shell has ended, or with an error when the
	// attachment has.
	Wait() (Exit, error)
}

// Jobs are the background commands of a room. All calls but StartJob and Jobs
// fail with NotFound for a job that is not there.
type Jobs interface {
	// StartJob starts a job. It fails as Exec does, and with Rejected if too many
	// jobs run.
	StartJob(ctx context.Context, cmd JobCommand) (Job, error)
	// Jobs lists the jobs, the newest first.
	Jobs(ctx context.Context) ([]Job, error)
	Job(ctx context.Context, id config.JobID) (Job, error)
	// WaitJob returns when the job has ended or after wait, at most MaxJobWait.
	WaitJob(ctx context.Context, id config.JobID, wait time.Duration) (Job, error)
	// KillJob sends SIGTERM, or SIGKILL if hard, to everything of a job.
	KillJob(ctx context.Context, id config.JobID, hard bool) (Job, error)
	// TailJob reads up to 64 KiB of a job's output from an offset on. If there is
	// none yet, it waits for some.
	TailJob(ctx context.Context, id config.JobID, offset uint64, wait time.Duration) (JobTail, error)
	// TailJobEnd reads the last n bytes, at most 64 KiB, of a job's output.
	TailJobEnd(ctx context.Context, id config.JobID, n uint64) (JobTail, error)
}

// Run executes a command in a room and waits for it.
func Run(ctx context.Context, room Executor, cmd Command) (Exit, error) {
	p, err := room.Exec(ctx, cmd)
	if err != nil {
		return Exit{}, err
	}
	return p.Wait()
}

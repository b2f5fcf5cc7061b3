package engine

import (
	"fmt"
	"time"

	"osaurus-sandbox/config"
)

// ShellTimeout is the time limit of a ShellCommand that has none.
const ShellTimeout = 30 * time.Second

// Shell names a session and says how to start its shell if it does not run.
type Shell struct {
	Session config.SessionID
	Env     []string // NAME=value, over the user's login environment
	Dir     string   // relative to the home
	// Transcript is the session's transcript from before this boot, which a new
	// session begins with.
	Transcript string
}

// ShellCommand is a command for a session's shell.
type ShellCommand struct {
	Shell
	Command string // as one would type it; may have many lines
	Stdin   []byte
	// Timeout bounds the wait for the shell, and then the command; 0 is ShellTimeout.
	Timeout time.Duration
	// Call identifies the command for CancelShell.
	Call config.CallID
}

// ShellResult is the result of a ShellCommand.
type ShellResult struct {
	Stdout, Stderr ShellOutput
	Code           int // as $? has it: 128 + n after signal n
	TimedOut       bool
	Cancelled      bool // by CancelShell or by a person's Ctrl-C
	Exited         bool // the shell ended with it (exit, exec, a crash)
	Restarted      bool // it ran in a new shell: the old one's state is lost
	RestartCause   string
	Dir            string // the shell's working directory afterwards
	Late           []LateOutput
	Duration       time.Duration
}

// ShellOutput is the output of one stream: all of it in Head, or the beginning and the
// end with Omitted characters between them.
type ShellOutput struct {
	Head, Tail []byte
	Omitted    uint64
}

// String returns the output with a line that says how much is left out.
func (o ShellOutput) String() string {
	if o.Omitted == 0 {
		return string(o.Head)
	}
	return fmt.Sprintf("%s\n[… %d characters left out …]\n%s", o.Head, o.Omitted, o.Tail)
}

// LateOutput is what an earlier command of the session has written in the background
// after its call ended.
type LateOutput struct {
	Command string // its beginning
	Output  ShellOutput
}

// SessionState is what a session's shell does.
type SessionState string

const (
	SessionIdle    SessionState = "idle"    // at its prompt
	SessionCommand SessionState = "command" // a ShellCommand runs
	SessionPerson  SessionState = "person"  // a person's program has the terminal
	SessionEnded   SessionState = "ended"   // the next use makes a new shell
)

// Session describes a session. It comes from the guest and must not be trusted.
type Session struct {
	User       string
	ID         string
	State      SessionState
	PID        int // of the shell, in the guest
	Command    string
	Dir        string
	Attached   int // people
	Waiting    int // commands
	Made, Used time.Time
}

package engine

import (
	"fmt"
	"time"

	"osaurus-sandbox/config"
)

// ShellTimeout is the time limit of a ShellCommand that has none.
const ShellTimeout = 30 * time.Second

// Shell is a session, and how to start its shell if it does not run.
type Shell struct {
	Session config.SessionID
	Env     []string // NAME=value, over the user's login environment
	Dir     string   // relative to the home
	// Transcript is the session's transcript of before this boot of the guest:
	// what a new session begins with.
	Transcript string
}

// ShellCommand is a command for a session's shell.
type ShellCommand struct {
	Shell
	Command string // what one would type; many lines are fine
	Stdin   []byte // what it reads; without it, nothing
	// Timeout bounds the wait for the shell, and then the command. 0 is 30 s.
	Timeout time.Duration
	// Call is what CancelShell may name it by. Without, it can only be cancelled as
	// what runs, or by the context.
	Call config.CallID
}

// ShellResult is what became of a ShellCommand.
type ShellResult struct {
	Stdout, Stderr ShellOutput
	Code           int // as $? has it: 128 + n after signal n
	TimedOut       bool
	Cancelled      bool   // by CancelShell, perhaps before it began, or by a person's Ctrl-C
	Exited         bool   // the shell ended with it (exit, exec, a crash)
	Restarted      bool   // it ran in a new shell: what was changed in the one before is lost
	RestartCause   string // why
	Dir            string // the shell's working directory afterwards
	Late           []LateOutput
	Duration       time.Duration
}

// ShellOutput is a stream of a command: all of it in Head, or its beginning
// and its end with Omitted characters between them.
type ShellOutput struct {
	Head, Tail []byte
	Omitted    uint64
}

// String is the output with a line that says what is left out.
func (o ShellOutput) String() string {
	if o.Omitted == 0 {
		return string(o.Head)
	}
	return fmt.Sprintf("%s\n[… %d characters left out …]\n%s", o.Head, o.Omitted, o.Tail)
}

// LateOutput is what an earlier command of the session has written in the
// background since its call ended.
type LateOutput struct {
	Command string // its beginning
	Output  ShellOutput
}

// SessionState says what a session's shell does.
type SessionState string

const (
	SessionIdle    SessionState = "idle"    // at its prompt
	SessionCommand SessionState = "command" // a ShellCommand runs
	SessionPerson  SessionState = "person"  // a person's program has the terminal
	SessionEnded   SessionState = "ended"   // the next use makes a new shell
)

// Session is a session as the guest lists it. Like Info it is only the
// guest's word.
type Session struct {
	User       string
	ID         string
	State      SessionState
	PID        int // of the shell, in the guest
	Command    string
	Dir        string
	Attached   int // persons
	Waiting    int // commands
	Made, Used time.Time
}

// ShellEnd is how a shell ended while a terminal was attached.
type ShellEnd struct {
	Code  int    // 128 + n after signal n
	Cause string // if it did not end by itself
}

package guest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// ShellTimeout is the time limit of a ShellCommand that has none.
const ShellTimeout = wire.ShellTimeout

// Shell says which session of which agent, and what its shell is made with
// where it has to be made.
type Shell struct {
	User    config.LinuxUser // whose room; empty is root of the guest
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

// shellPatience is for what a command in a shell may take beside its timeout.
const shellPatience = time.Minute

// RunShell runs a command in a session's shell and waits for it. Cancelling
// the context ends the command (SIGINT, SIGTERM, SIGKILL), not the session; who
// wants to have what it wrote until then uses CancelShell.
//
// It fails with Unavailable when something else had the shell until the
// timeout, Rejected when the agent has too many sessions or the session too many
// commands that wait, and NotFound when there is no room for the user.
func (c *Client) RunShell(ctx context.Context, cmd ShellCommand) (ShellResult, error) {
	r := &guestpb.ShellRunRequest{
		Shell: cmd.proto(), Command: []byte(cmd.Command), Stdin: cmd.Stdin, TimeoutNanos: int64(cmd.Timeout), Call: string(cmd.Call),
	}
	if err := wire.CheckShellRun(r); err != nil {
		return ShellResult{}, err
	}
	// The guest itself keeps to the timeout, twice; then it ends the command, and
	// may have to start a shell before.
	timeout := cmp.Or(cmd.Timeout, wire.ShellTimeout)
	a, err := callWithin(ctx, 2*timeout+shellPatience, "run in shell", string(cmd.Session), c.shells.Run, r)
	if err != nil {
		return ShellResult{}, err
	}
	result := ShellResult{
		Stdout: shellOutput(a.Stdout), Stderr: shellOutput(a.Stderr), Code: int(a.Code),
		TimedOut: a.TimedOut, Cancelled: a.Cancelled, Exited: a.Exited,
		Restarted: a.Restarted, RestartCause: printable.Clip(a.RestartCause),
		Dir: clipPath(a.Dir), Duration: time.Duration(a.DurationNanos),
	}
	for _, l := range bound(a.Late) {
		result.Late = append(result.Late, LateOutput{Command: printable.Clip(l.Command), Output: shellOutput(l.Output)})
	}
	return result, nil
}

// CancelShell ends the command that runs in a session, or a certain call, also
// while it waits; it returns when that has ended. It fails with NotFound when
// there is none.
func (c *Client) CancelShell(ctx context.Context, user config.LinuxUser, id config.SessionID, which config.CallID) error {
	_, err := call(ctx, "cancel command of session "+string(id), c.shells.Cancel, &guestpb.ShellCancelRequest{User: string(user), Session: string(id), Call: string(which)})
	return err
}

// Sessions lists the sessions of a user, or of all if that is empty.
func (c *Client) Sessions(ctx context.Context, user config.LinuxUser) ([]Session, error) {
	r, err := call(ctx, "list sessions", c.shells.Sessions, &guestpb.SessionsRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	states := map[guestpb.Session_State]SessionState{
		guestpb.Session_STATE_IDLE: SessionIdle, guestpb.Session_STATE_COMMAND: SessionCommand,
		guestpb.Session_STATE_PERSON: SessionPerson,
	}
	var list []Session
	for _, s := range r.Sessions[:min(len(r.Sessions), wire.MaxSessions)] {
		state, ok := states[s.State]
		if !ok {
			state = SessionEnded
		}
		list = append(list, Session{
			User: printable.Clip(s.User), ID: printable.Clip(s.Session), State: state, PID: int(s.Pid), Command: printable.Clip(s.Command),
			Dir: clipPath(s.Dir), Attached: int(s.Attached), Waiting: int(s.Waiting),
			Made: time.Unix(0, s.MadeUnixNano), Used: time.Unix(0, s.UsedUnixNano),
		})
	}
	return list, nil
}

// Transcript is the end of what was typed and shown in a session, without what
// a terminal would obey. The version grows with every change.
func (c *Client) Transcript(ctx context.Context, user config.LinuxUser, id config.SessionID) (text string, version uint64, err error) {
	r, err := call(ctx, "read transcript", c.shells.Transcript, &guestpb.ShellTranscriptRequest{User: string(user), Session: string(id)})
	if err != nil {
		return "", 0, err
	}
	return wire.CleanTranscript(r.Text), r.Version, nil
}

// CloseSession ends a session and all that runs in it; without an id, all of a
// user's. It returns how many there were, and fails with NotFound when the one
// that was named is not there.
func (c *Client) CloseSession(ctx context.Context, user config.LinuxUser, id config.SessionID) (int, error) {
	r, err := call(ctx, "close session", c.shells.CloseSession, &guestpb.CloseSessionRequest{User: string(user), Session: string(id)})
	return int(r.GetClosed()), err
}

func (s Shell) proto() *guestpb.Shell {
	return &guestpb.Shell{
		User: string(s.User), Session: string(s.Session), Env: wire.Bytes(s.Env), Dir: []byte(s.Dir),
		Transcript: wire.CleanTranscript(s.Transcript),
	}
}

// shellOutput bounds a stream of the guest; what is in it is the command's.
func shellOutput(o *guestpb.ShellOutput) ShellOutput {
	clip := func(b []byte) []byte { return bytes.Clone(b[:min(len(b), wire.MaxShellOutputBytes)]) }
	return ShellOutput{Head: clip(o.GetHead()), Tail: clip(o.GetTail()), Omitted: o.GetOmitted()}
}

// clipPath bounds a path of the guest, which may hold any byte but NUL.
func clipPath(b []byte) string { return string(b[:min(len(b), wire.MaxPath)]) }

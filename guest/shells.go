package guest

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// shellPatience is for what a command in a shell may take beside its timeout.
const shellPatience = time.Minute

// RunShell runs a command in a session's shell and waits for it. Cancelling
// the context ends the command (SIGINT, SIGTERM, SIGKILL), not the session; who
// wants to have what it wrote until then uses CancelShell.
//
// It fails with Unavailable when something else had the shell until the
// timeout, Rejected when the agent has too many sessions or the session too many
// commands that wait, and NotFound when there is no room for the user.
func (c *Client) RunShell(ctx context.Context, cmd engine.ShellCommand) (engine.ShellResult, error) {
	r := &guestpb.ShellRunRequest{
		Shell: shellProto(cmd.Shell), Command: []byte(cmd.Command), Stdin: cmd.Stdin, TimeoutNanos: int64(cmd.Timeout), Call: string(cmd.Call),
	}
	if err := wire.CheckShellRun(r); err != nil {
		return engine.ShellResult{}, err
	}
	// The guest itself keeps to the timeout, twice; then it ends the command, and
	// may have to start a shell before.
	timeout := cmp.Or(cmd.Timeout, engine.ShellTimeout)
	a, err := callWithin(ctx, 2*timeout+shellPatience, "run in shell", string(cmd.Session), c.shells.Run, r)
	if err != nil {
		return engine.ShellResult{}, err
	}
	result := engine.ShellResult{
		Stdout: shellOutput(a.Stdout), Stderr: shellOutput(a.Stderr), Code: int(a.Code),
		TimedOut: a.TimedOut, Cancelled: a.Cancelled, Exited: a.Exited,
		Restarted: a.Restarted, RestartCause: printable.Clip(a.RestartCause),
		Dir: clipPath(a.Dir), Duration: time.Duration(a.DurationNanos),
	}
	for _, l := range bound(a.Late) {
		result.Late = append(result.Late, engine.LateOutput{Command: printable.Clip(l.Command), Output: shellOutput(l.Output)})
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
func (c *Client) Sessions(ctx context.Context, user config.LinuxUser) ([]engine.Session, error) {
	r, err := call(ctx, "list sessions", c.shells.Sessions, &guestpb.SessionsRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	states := map[guestpb.Session_State]engine.SessionState{
		guestpb.Session_STATE_IDLE: engine.SessionIdle, guestpb.Session_STATE_COMMAND: engine.SessionCommand,
		guestpb.Session_STATE_PERSON: engine.SessionPerson,
	}
	var list []engine.Session
	for _, s := range r.Sessions[:min(len(r.Sessions), wire.MaxSessions)] {
		state, ok := states[s.State]
		if !ok {
			state = engine.SessionEnded
		}
		list = append(list, engine.Session{
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

func shellProto(s engine.Shell) *guestpb.Shell {
	return &guestpb.Shell{
		User: string(s.User), Session: string(s.Session), Env: wire.Bytes(s.Env), Dir: []byte(s.Dir),
		Transcript: wire.CleanTranscript(s.Transcript),
	}
}

// shellOutput bounds a stream of the guest; what is in it is the command's.
func shellOutput(o *guestpb.ShellOutput) engine.ShellOutput {
	clip := func(b []byte) []byte { return bytes.Clone(b[:min(len(b), wire.MaxShellOutputBytes)]) }
	return engine.ShellOutput{Head: clip(o.GetHead()), Tail: clip(o.GetTail()), Omitted: o.GetOmitted()}
}

// clipPath bounds a path of the guest, which may hold any byte but NUL.
func clipPath(b []byte) string { return string(b[:min(len(b), wire.MaxPath)]) }

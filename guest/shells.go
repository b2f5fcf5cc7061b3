package guest

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// shellSlack is how long ending a command and starting a new shell may take beyond the timeout.
const shellSlack = 30 * time.Second

// RunShell implements engine.Shells.
func (c room) RunShell(ctx context.Context, cmd engine.ShellCommand) (engine.ShellResult, error) {
	r := &guestpb.ShellRunRequest{
		Shell: c.shell(cmd.Shell), Command: []byte(cmd.Command), Stdin: cmd.Stdin, TimeoutNanos: int64(cmd.Timeout), Call: string(cmd.Call),
	}
	// The guest applies the timeout to the wait for the shell and to the command.
	timeout := cmp.Or(cmd.Timeout, engine.ShellTimeout)
	a, err := c.shells.Run(within(ctx, 2*timeout+shellSlack), r)
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

// CancelShell implements engine.Shells.
func (c room) CancelShell(ctx context.Context, id config.SessionID, which config.CallID) error {
	_, err := c.shells.Cancel(ctx, &guestpb.ShellCancelRequest{User: string(c.user), Session: string(id), Call: string(which)})
	return err
}

// Sessions implements engine.Shells.
func (c room) Sessions(ctx context.Context) ([]engine.Session, error) {
	r, err := c.shells.Sessions(ctx, &guestpb.SessionsRequest{User: string(c.user)})
	if err != nil {
		return nil, err
	}
	var list []engine.Session
	for _, s := range r.Sessions[:min(len(r.Sessions), protocol.MaxListedSessions)] {
		list = append(list, engine.Session{
			User: printable.Clip(s.User), ID: printable.Clip(s.Session), State: engine.SessionState(printable.Clip(s.State)), PID: int(s.Pid), Command: printable.Clip(s.Command),
			Dir: clipPath(s.Dir), Attached: int(s.Attached), Waiting: int(s.Waiting),
			Made: time.Unix(0, s.MadeUnixNano), Used: time.Unix(0, s.UsedUnixNano),
		})
	}
	return list, nil
}

// Transcript implements engine.Shells.
func (c room) Transcript(ctx context.Context, id config.SessionID) (text string, version uint64, err error) {
	r, err := c.shells.Transcript(ctx, &guestpb.ShellTranscriptRequest{User: string(c.user), Session: string(id)})
	if err != nil {
		return "", 0, err
	}
	return protocol.CleanTranscript(r.Text), r.Version, nil
}

// CloseSession implements engine.Shells.
func (c room) CloseSession(ctx context.Context, id config.SessionID) (int, error) {
	r, err := c.shells.CloseSession(ctx, &guestpb.CloseSessionRequest{User: string(c.user), Session: string(id)})
	return int(r.GetClosed()), err
}

func (c room) shell(s engine.Shell) *guestpb.Shell {
	return &guestpb.Shell{
		User: string(c.user), Session: string(s.Session), Env: protocol.Bytes(s.Env), Dir: []byte(s.Dir),
		Transcript: protocol.CleanTranscript(s.Transcript),
	}
}

// shellOutput bounds the output of a command.
func shellOutput(o *guestpb.ShellOutput) engine.ShellOutput {
	clip := func(b []byte) []byte { return bytes.Clone(b[:min(len(b), protocol.MaxShellOutputBytes)]) }
	return engine.ShellOutput{Head: clip(o.GetHead()), Tail: clip(o.GetTail()), Omitted: o.GetOmitted()}
}

// clipPath bounds a path of the guest. It may contain any byte.
func clipPath(b []byte) string { return string(b[:min(len(b), protocol.MaxPath)]) }

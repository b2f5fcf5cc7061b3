package control

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/sessions"
)

// shellService implements the service Shells.
type shellService struct{ service }

// maxSessionTime bounds a command of a session, for whose end all others wait.
const maxSessionTime = time.Hour

// parseSession parses a session's id; empty is the default session.
func parseSession(text string) (config.SessionID, error) {
	return config.ParseSessionID(cmp.Or(text, string(config.SessionDefault)))
}

// find returns the room of a session's agent, the agent, and the session's id.
func (s shellService) find(ctx context.Context, ref, session string) (room sessions.Room, agent agents.Agent, id config.SessionID, err error) {
	if id, err = parseSession(session); err == nil {
		room, agent, err = s.room(ctx, ref)
	}
	return room, agent, id, err
}

// Run runs one command in a session's shell.
func (s shellService) Run(ctx context.Context, r *controlpb.RunInSessionRequest) (*controlpb.RunInSessionResponse, error) {
	room, agent, id, err := s.find(ctx, r.Agent, r.Session)
	if err != nil {
		return nil, err
	}
	call, err := optional(r.Call, config.ParseCallID)
	if err = cmp.Or(err, checkCommand(r.Env, r.Timeout)); err != nil {
		return nil, err
	}
	if r.Timeout.AsDuration() > maxSessionTime || strings.Contains(r.Command, "\x00") {
		return nil, fault.Newf(fault.InvalidArgs, "run in session", string(id), "the command contains a zero byte, or its timeout is over %v", maxSessionTime).Advise("Run what takes longer as a job.")
	}
	cmd := engine.ShellCommand{
		Shell:   engine.Shell{Session: id, Env: r.Env, Dir: r.Dir},
		Command: r.Command, Stdin: r.Stdin, Timeout: r.Timeout.AsDuration(), Call: call,
	}
	n := note{action: "session.run", agent: agent.Name, subject: string(id) + ": " + r.Command, strict: true}
	result, err := answered(ctx, s.service, n, func() (result engine.ShellResult, err error) {
		_, err = s.undoable(ctx, agent, "session", r.Command, func() (err error) {
			result, err = room.RunShell(ctx, cmd)
			return err
		})
		return result, err
	})
	if err != nil {
		return nil, err
	}
	answer := &controlpb.RunInSessionResponse{
		Stdout: sessionOutput(result.Stdout), Stderr: sessionOutput(result.Stderr), Status: int32(result.Code),
		TimedOut: result.TimedOut, Cancelled: result.Cancelled, Exited: result.Exited,
		Restarted: result.Restarted, RestartCause: result.RestartCause, Dir: printable.Text(result.Dir), Duration: span(result.Duration),
	}
	for _, l := range result.Late {
		answer.Late = append(answer.Late, &controlpb.LateOutput{Command: l.Command, Output: sessionOutput(l.Output)})
	}
	return answer, nil
}

func sessionOutput(o engine.ShellOutput) *controlpb.SessionOutput {
	return &controlpb.SessionOutput{Head: o.Head, Omitted: o.Omitted, Tail: o.Tail}
}

// Cancel ends the command that runs in a session, or a certain call.
func (s shellService) Cancel(ctx context.Context, r *controlpb.CancelInSessionRequest) (*controlpb.CancelInSessionResponse, error) {
	room, agent, id, err := s.find(ctx, r.Agent, r.Session)
	if err != nil {
		return nil, err
	}
	call, err := optional(r.Call, config.ParseCallID)
	if err != nil {
		return nil, err
	}
	n := note{action: "session.cancel", agent: agent.Name, subject: string(id)}
	return &controlpb.CancelInSessionResponse{}, s.audited(ctx, n, func() error { return room.CancelShell(ctx, id, call) })
}

// Attach attaches a terminal to a session's shell.
func (s shellService) Attach(ctx context.Context, stream *execStream) error {
	start, err := receiveStart(stream, false)
	if err != nil {
		return err
	}
	room, agent, id, err := s.find(ctx, start.Agent, start.Session)
	if err != nil {
		return err
	}
	n := note{action: "session.attach", agent: agent.Name, subject: string(id), strict: true}
	return s.exec(ctx, n, start, stream, func(ctx context.Context, cmd engine.Command) (engine.Process, error) {
		size := terminalSize(start.GetTerminal().GetRows(), start.GetTerminal().GetCols())
		a, err := room.AttachShell(ctx, engine.Shell{Session: id, Env: cmd.Env, Dir: cmd.Dir}, size, cmd.Stdout)
		if err != nil {
			return nil, err
		}
		if cmd.Stdin != nil {
			go func() { _, _ = io.Copy(a, cmd.Stdin) }() // Wait returns why a shell takes nothing more
		}
		return attached{a, ctx}, nil
	})
}

// attached is a shell that a terminal is attached to, as a process.
type attached struct {
	engine.Attachment
	ctx context.Context
}

// PID implements engine.Process.
func (a attached) PID() int { return 0 }

// Signal implements engine.Process.
func (a attached) Signal(context.Context, engine.Signal) error {
	return fault.Newf(fault.InvalidArgs, "send signal", "", "a shell has a terminal").Advise("Type the key for it.")
}

// Wait implements engine.Process. A person who has left is no error.
func (a attached) Wait() (engine.Exit, error) {
	exit, err := a.Attachment.Wait()
	if a.ctx.Err() != nil {
		err = nil
	}
	return exit, err
}

// List lists the sessions of one agent, or of all.
func (s shellService) List(ctx context.Context, r *controlpb.ListSessionsRequest) (*controlpb.ListSessionsResponse, error) {
	list := &controlpb.ListSessionsResponse{}
	err := s.Sessions.Each(r.Agent, func(agent agents.Agent, room sessions.Room) error {
		found, err := room.Sessions(ctx)
		for _, s := range found {
			list.Sessions = append(list.Sessions, sessionProto(agent, s))
		}
		return err
	})
	return list, err
}

func sessionProto(agent agents.Agent, s engine.Session) *controlpb.Session {
	return &controlpb.Session{
		Agent: string(agent.Name), Session: s.ID, State: string(s.State), Pid: int32(s.PID), Command: s.Command, Dir: printable.Text(s.Dir),
		Attached: uint32(s.Attached), Waiting: uint32(s.Waiting), Made: moment(s.Made), Used: moment(s.Used),
	}
}

// Transcript returns the end of a session's transcript.
func (s shellService) Transcript(ctx context.Context, r *controlpb.TranscriptRequest) (*controlpb.TranscriptResponse, error) {
	room, _, id, err := s.find(ctx, r.Agent, r.Session)
	if err != nil {
		return nil, err
	}
	text, _, err := room.Transcript(ctx, id)
	return &controlpb.TranscriptResponse{Text: text}, err
}

// Close ends a session and deletes its transcript.
func (s shellService) Close(ctx context.Context, r *controlpb.CloseSessionRequest) (*controlpb.CloseSessionResponse, error) {
	room, agent, id, err := s.find(ctx, r.Agent, r.Session)
	if err != nil {
		return nil, err
	}
	n := note{action: "session.close", agent: agent.Name, subject: string(id)}
	return &controlpb.CloseSessionResponse{}, s.audited(ctx, n, func() error {
		_, err := room.CloseSession(ctx, id)
		return err
	})
}

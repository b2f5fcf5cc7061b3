package sessions

import (
	"context"
	"io"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// Room returns an agent's room for a caller who acts as by. Its shells and jobs
// are those of Terminals.
func (t *Terminals) Room(agent string, by machine.Cause) engine.Room {
	return room{t.Agents.Room(agent), t, agent, false, by}
}

// RunningRoom is Room without starting a guest. Without a running one, calls fail with Unavailable
// or NotFound.
func (t *Terminals) RunningRoom(agent string, by machine.Cause) engine.Room {
	return room{t.Agents.RunningRoom(agent), t, agent, true, by}
}

type room struct {
	agents.Room
	terminals *Terminals
	agent     string
	running   bool
	by        machine.Cause
}

func (r room) RunShell(ctx context.Context, cmd engine.ShellCommand) (engine.ShellResult, error) {
	return r.terminals.Run(ctx, r.agent, cmd, r.by)
}

func (r room) CancelShell(ctx context.Context, id config.SessionID, call config.CallID) error {
	return r.terminals.Cancel(ctx, r.agent, id, call)
}

func (r room) AttachShell(ctx context.Context, shell engine.Shell, size engine.TerminalSize, output io.Writer) (engine.Attachment, error) {
	return r.terminals.Attach(ctx, r.agent, shell, size, output, r.by)
}

func (r room) Sessions(ctx context.Context) ([]engine.Session, error) {
	found, err := r.terminals.Sessions(ctx, r.agent)
	list := make([]engine.Session, len(found))
	for i, s := range found {
		list[i] = s.Session
	}
	return list, err
}

func (r room) Transcript(ctx context.Context, id config.SessionID) (string, uint64, error) {
	text, err := r.terminals.Transcript(ctx, r.agent, id)
	return text, 0, err
}

func (r room) CloseSession(ctx context.Context, id config.SessionID) (int, error) {
	if err := r.terminals.CloseSession(ctx, r.agent, id, r.by); err != nil {
		return 0, err
	}
	return 1, nil
}

func (r room) StartJob(ctx context.Context, cmd engine.JobCommand) (engine.Job, error) {
	j, err := r.terminals.StartJob(ctx, r.agent, cmd, r.running, r.by)
	return j.Job, err
}

func (r room) Jobs(ctx context.Context) ([]engine.Job, error) {
	found, err := r.terminals.Jobs(ctx, r.agent)
	list := make([]engine.Job, len(found))
	for i, j := range found {
		list[i] = j.Job
	}
	return list, err
}

func (r room) Job(ctx context.Context, id config.JobID) (engine.Job, error) {
	j, err := r.terminals.Job(ctx, r.agent, id)
	return j.Job, err
}

func (r room) WaitJob(ctx context.Context, id config.JobID, wait time.Duration) (engine.Job, error) {
	j, err := r.terminals.WaitJob(ctx, r.agent, id, wait)
	return j.Job, err
}

func (r room) KillJob(ctx context.Context, id config.JobID, hard bool) (engine.Job, error) {
	j, err := r.terminals.KillJob(ctx, r.agent, id, hard)
	return j.Job, err
}

func (r room) TailJob(ctx context.Context, id config.JobID, offset uint64, _ time.Duration) (engine.JobTail, error) {
	return r.tail(ctx, id, Tail{Offset: offset})
}

func (r room) TailJobEnd(ctx context.Context, id config.JobID, n uint64) (engine.JobTail, error) {
	return r.tail(ctx, id, Tail{FromEnd: n})
}

func (r room) tail(ctx context.Context, id config.JobID, tail Tail) (engine.JobTail, error) {
	var out engine.JobTail
	j, err := r.terminals.TailJob(ctx, r.agent, id, tail, func(part Part) error {
		if len(out.Data) == 0 {
			out.Offset = part.Offset
		}
		out.Data = append(out.Data, part.Data...)
		return nil
	})
	out.Job = j.Job
	return out, err
}

package sessions

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// Room is an agent's room. It adds saved transcripts to the room's shells, removes secrets from
// the output of shells and jobs, and records which ones began and ended.
//
// Methods that start something start the guest if necessary. The others do not: without a guest
// there are no shells and no jobs, only transcripts. Attached people and running jobs keep the
// guest from being stopped as idle.
type Room struct {
	agents.Room
	manager *Manager
	by      machine.Cause
}

var _ engine.Room = Room{}

// Room returns an agent's room for a caller who acts as by.
func (m *Manager) Room(agent string, by machine.Cause) Room {
	return Room{m.Agents.Room(agent), m, by}
}

// RunningRoom is Room without starting a guest. Without a running one, calls fail with Unavailable
// or NotFound.
func (m *Manager) RunningRoom(agent string, by machine.Cause) Room {
	return Room{m.Agents.RunningRoom(agent), m, by}
}

// running leases the guest of the agent's machine. Without one, lease is nil.
func (r Room) running() (lease *machine.Lease, agent agents.Agent, err error) {
	if agent, err = r.Agent(); err != nil {
		return nil, agent, err
	}
	lease, _ = r.manager.Agents.Machines.For(agent.ID).Peek()
	return lease, agent, nil
}

// enter leases the guest with the agent's room in it, and adds the session's transcript to shell.
func (r Room) enter(ctx context.Context, shell *engine.Shell) (*machine.Lease, agents.Agent, error) {
	l, agent, err := r.Enter(ctx)
	if err != nil {
		return nil, agent, err
	}
	if shell.Transcript, _, err = r.manager.kept.read(ctx, agent.UID, shell.Session); err != nil {
		l.Release()
		return nil, agent, err
	}
	return l, agent, nil
}

// RunShell implements engine.Shells.
func (r Room) RunShell(ctx context.Context, cmd engine.ShellCommand) (engine.ShellResult, error) {
	l, agent, err := r.enter(ctx, &cmd.Shell)
	if err != nil {
		return engine.ShellResult{}, err
	}
	defer l.Release()
	defer r.manager.recorder.used(agent, cmd.Session, r.by)
	secrets := r.manager.Agents.Redact(ctx, agent)
	result, err := l.Room(agent.User).RunShell(ctx, cmd)
	redactResult(secrets.Scrubber(), &result) // with secrets that were set meanwhile
	return result, err
}

// CancelShell implements engine.Shells.
func (r Room) CancelShell(ctx context.Context, id config.SessionID, call config.CallID) error {
	l, agent, err := r.running()
	if err != nil {
		return err
	}
	if l == nil {
		return fault.Newf(fault.NotFound, "cancel command", string(id), "no guest runs").Advise("The command has ended with its guest.")
	}
	defer l.Release()
	return l.Room(agent.User).CancelShell(ctx, id, call)
}

// AttachShell implements engine.Shells.
func (r Room) AttachShell(ctx context.Context, shell engine.Shell, size engine.TerminalSize, output io.Writer) (engine.Attachment, error) {
	m := r.manager
	l, agent, err := r.enter(ctx, &shell)
	if err != nil {
		return nil, err
	}
	a, err := l.Room(agent.User).AttachShell(ctx, shell, size, output)
	if err != nil {
		l.Release()
		return nil, err
	}
	m.recorder.used(agent, shell.Session, r.by)
	m.beside(func() {
		defer l.Release()
		defer m.recorder.used(agent, shell.Session, r.by)
		tick := time.NewTicker(attachedEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.recorder.used(agent, shell.Session, r.by)
			case <-a.Done():
				return
			case <-m.life.Done():
				return
			}
		}
	})
	return a, nil
}

// Sessions lists the agent's sessions by id: those of the running guest, and those that have ended
// and left a transcript.
func (r Room) Sessions(ctx context.Context) ([]engine.Session, error) {
	l, agent, err := r.running()
	if err != nil {
		return nil, err
	}
	var living []engine.Session
	if l != nil {
		defer l.Release()
		if living, err = l.Room(agent.User).Sessions(ctx); err != nil {
			return nil, err
		}
	}
	kept, err := r.manager.kept.list(ctx, agent.UID)
	if err != nil {
		return nil, err
	}
	found := map[string]engine.Session{}
	for _, s := range kept {
		found[s.ID] = s
	}
	secrets := r.manager.Agents.Redacted(agent)
	for _, s := range living {
		if _, err := config.ParseSessionID(s.ID); err == nil && s.User == string(agent.User) {
			s.Command = secrets.Clipped(s.Command)
			found[s.ID] = s
		}
	}
	return slices.SortedFunc(maps.Values(found), func(x, y engine.Session) int { return cmp.Compare(x.ID, y.ID) }), nil
}

// Transcript implements engine.Shells, also for ended sessions. If the guest does not answer, it
// returns the saved transcript. Its version is always 0.
func (r Room) Transcript(ctx context.Context, id config.SessionID) (string, uint64, error) {
	l, agent, err := r.running()
	if err != nil {
		return "", 0, err
	}
	missing := noSession("read transcript", id)
	if l != nil {
		defer l.Release()
		text, _, err := l.Room(agent.User).Transcript(ctx, id)
		if err == nil {
			return r.manager.Agents.Redact(ctx, agent).Scrubber().Excerpt(text), 0, nil
		}
		if fault.KindOf(err) != fault.NotFound {
			missing = err
		}
	}
	text, ok, err := r.manager.kept.read(ctx, agent.UID, id)
	if err == nil && !ok {
		err = missing
	}
	return text, 0, err
}

// CloseSession ends a session with everything in it and deletes its transcript.
func (r Room) CloseSession(ctx context.Context, id config.SessionID) (int, error) {
	l, agent, err := r.running()
	if err != nil {
		return 0, err
	}
	m, closed := r.manager, 0
	// A transcript that is saved meanwhile would stay, and the session would seem to have begun again.
	m.recorder.saving.Lock()
	defer m.recorder.saving.Unlock()
	if l != nil {
		defer l.Release()
		if closed, err = l.Room(agent.User).CloseSession(ctx, id); err != nil && fault.KindOf(err) != fault.NotFound {
			return 0, err
		}
	}
	m.recorder.closed(agent, id)
	kept, err := m.kept.forget(ctx, agent.UID, id)
	switch {
	case err != nil:
		return 0, err
	case closed == 0 && !kept:
		return 0, noSession("close session", id)
	}
	m.note(SessionClosed, r.by, agent, map[string]string{"session": string(id)})
	return 1, nil
}

func noSession(op string, id config.SessionID) error {
	return fault.Newf(fault.NotFound, op, string(id), "no such session").Advise("List the sessions: osaurus-sandbox session list")
}

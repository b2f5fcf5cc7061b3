package sessions

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// Session is a session of an agent, as the guest reports it. If only its
// transcript is left, it has ended.
type Session struct {
	Agent agents.Agent
	engine.Session
}

// Run runs a command in a session's shell: see engine.Shells. The transcript is
// added to it.
func (t *Terminals) Run(ctx context.Context, ref string, cmd engine.ShellCommand, by machine.Cause) (engine.ShellResult, error) {
	l, agent, err := t.enter(ctx, ref, &cmd.Shell)
	if err != nil {
		return engine.ShellResult{}, err
	}
	defer l.Release()
	defer t.recorder.used(agent, cmd.Session, by)
	secrets := t.Agents.Redact(ctx, agent)
	result, err := l.Room(agent.User).RunShell(ctx, cmd)
	redactResult(secrets.Scrubber(), &result) // with secrets that were set meanwhile
	return result, err
}

// enter leases the guest with an agent's room in it, and adds the session's
// transcript to shell.
func (t *Terminals) enter(ctx context.Context, ref string, shell *engine.Shell) (*machine.Lease, agents.Agent, error) {
	l, agent, err := t.Agents.Room(ref).Enter(ctx)
	if err != nil {
		return nil, agent, err
	}
	if shell.Transcript, _, err = t.kept.read(ctx, agent.UID, shell.Session); err != nil {
		l.Release()
		return nil, agent, err
	}
	return l, agent, nil
}

// Cancel ends the command that runs in a session, or a certain call, also
// while it waits, and returns when it has ended. It fails with NotFound if
// there is none.
func (t *Terminals) Cancel(ctx context.Context, ref string, id config.SessionID, which config.CallID) error {
	const op = "cancel command"
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return err
	}
	l, ok := t.Machines.For(agent.ID).AcquireRunning()
	if !ok {
		return fault.Newf(fault.NotFound, op, string(id), "no guest runs").Advise("The command has ended with its guest.")
	}
	defer l.Release()
	return l.Room(agent.User).CancelShell(ctx, id, which)
}

// Attach connects a terminal to a session's shell: see engine.Shells. The
// transcript is added to it.
func (t *Terminals) Attach(ctx context.Context, ref string, shell engine.Shell, size engine.TerminalSize, output io.Writer, by machine.Cause) (engine.Attachment, error) {
	l, agent, err := t.enter(ctx, ref, &shell)
	if err != nil {
		return nil, err
	}
	a, err := l.Room(agent.User).AttachShell(ctx, shell, size, output)
	if err != nil {
		l.Release()
		return nil, err
	}
	t.recorder.used(agent, shell.Session, by)
	t.beside(func() {
		defer l.Release()
		defer t.recorder.used(agent, shell.Session, by)
		tick := time.NewTicker(attachedEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.recorder.used(agent, shell.Session, by)
			case <-a.Done():
				return
			case <-t.life.Done():
				return
			}
		}
	})
	return a, nil
}

// Sessions lists the sessions of an agent, or of all if ref is empty, by agent
// and session: those of the running guest and those with a saved transcript.
func (t *Terminals) Sessions(ctx context.Context, ref string) ([]Session, error) {
	who, err := t.those(ref)
	if err != nil {
		return nil, err
	}
	found := map[place]engine.Session{}
	kept, err := t.kept.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		found[place{k.uid, k.id}] = engine.Session{ID: string(k.id), State: engine.SessionEnded, Used: k.used}
	}
	users := map[string]agents.Agent{}
	byUID := map[uint32]agents.Agent{}
	for _, agent := range who {
		users[string(agent.User)], byUID[agent.UID] = agent, agent
	}
	living, err := t.living(ctx, who, ref)
	if err != nil {
		return nil, err
	}
	for _, s := range living {
		agent, known := users[s.User]
		if id, err := config.ParseSessionID(s.ID); err == nil && known {
			s.Command = t.Agents.Redacted(agent).Clipped(s.Command)
			found[place{agent.UID, id}] = s
		}
	}
	var list []Session
	for p, s := range found {
		if agent, meant := byUID[p.uid]; meant {
			list = append(list, Session{agent, s})
		}
	}
	slices.SortFunc(list, func(x, y Session) int {
		return cmp.Or(cmp.Compare(x.Agent.Name, y.Agent.Name), cmp.Compare(x.ID, y.ID))
	})
	return list, nil
}

// living lists the sessions of the running guest.
func (t *Terminals) living(ctx context.Context, who []agents.Agent, ref string) ([]engine.Session, error) {
	user := engine.Root // sees all sessions
	if ref != "" {
		user = who[0].User
	}
	l, ok := t.Machines.Shared().Peek()
	if !ok {
		return nil, nil
	}
	defer l.Release()
	return l.Room(user).Sessions(ctx)
}

// Transcript returns a session's transcript with secrets redacted, also for ended sessions. If the
// guest does not answer, it returns the saved one.
func (t *Terminals) Transcript(ctx context.Context, ref string, id config.SessionID) (string, error) {
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return "", err
	}
	missing := error(fault.Newf(fault.NotFound, "read transcript", string(id), "no such session").
		Advise("List the sessions: osaurus-sandbox session list"))
	if l, ok := t.Machines.For(agent.ID).Peek(); ok {
		defer l.Release()
		text, _, err := l.Room(agent.User).Transcript(ctx, id)
		if err == nil {
			return redactTranscript(t.Agents.Redact(ctx, agent).Scrubber(), text), nil
		}
		if fault.KindOf(err) != fault.NotFound {
			missing = err
		}
	}
	text, ok, err := t.kept.read(ctx, agent.UID, id)
	if err == nil && !ok {
		err = missing
	}
	return text, err
}

// CloseSession ends a session with everything in it and deletes its
// transcript.
func (t *Terminals) CloseSession(ctx context.Context, ref string, id config.SessionID, by machine.Cause) error {
	const op = "close session"
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return err
	}
	defer t.recorder.ends(place{agent.UID, id})()
	lived := false
	if l, ok := t.Machines.For(agent.ID).AcquireRunning(); ok {
		defer l.Release()
		_, err := l.Room(agent.User).CloseSession(ctx, id)
		if lived = err == nil; !lived && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	kept := false
	err = t.recorder.turn(ctx, func() (err error) {
		t.recorder.closed(agent, id)
		kept, err = t.kept.forget(ctx, agent.UID, id)
		return err
	})
	switch {
	case err != nil:
		return err
	case !lived && !kept:
		return fault.Newf(fault.NotFound, op, string(id), "no such session").Advise("List the sessions: osaurus-sandbox session list")
	}
	t.note(SessionClosed, by, agent, map[string]string{"session": string(id)})
	return nil
}

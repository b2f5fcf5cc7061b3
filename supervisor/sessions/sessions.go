package sessions

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// runSlack is how long after its time limit a command's answer is waited for.
// Until then the guest has tried one signal after the other, and made a new
// shell if none helped.
const runSlack = 30 * time.Second

// Session is a shell of an agent, as the guest says it is. One of which only the
// transcript is left has ended.
type Session struct {
	Agent agents.Agent
	engine.Session
}

// Run runs a command in a session's shell. It is guest.Client's RunShell; User
// and Transcript are not the caller's to say.
func (t *Terminals) Run(ctx context.Context, ref string, cmd engine.ShellCommand, by machine.Cause) (engine.ShellResult, error) {
	const op = "run in session"
	l, agent, err := t.enter(ctx, ref, &cmd.Shell)
	if err != nil {
		return engine.ShellResult{}, err
	}
	defer l.Return()
	defer t.scribe.used(agent, cmd.Session, by)
	// The limit counts for the wait and for the command.
	limit, cancel := context.WithTimeoutCause(ctx, 2*cmp.Or(cmd.Timeout, engine.ShellTimeout)+runSlack, machine.ErrSilent)
	defer cancel()
	secrets := t.Agents.Redact(ctx, agent)
	result, err := l.Shells().RunShell(limit, cmd)
	redactResult(secrets.Scrubber(), &result) // also those that it got while it ran
	if err != nil && context.Cause(limit) == machine.ErrSilent {
		err = fault.New(fault.Timeout, op, string(cmd.Session), machine.ErrSilent).Advise("See `osaurus-sandbox status`; a silent guest is started again by itself.")
	}
	return result, l.Explain(ctx, op, string(cmd.Session), err)
}

// enter lends the guest with an agent's room in it, and completes what a shell
// there is made with.
func (t *Terminals) enter(ctx context.Context, ref string, shell *engine.Shell) (*machine.Loan, agents.Agent, error) {
	l, agent, err := t.Agents.Enter(ctx, ref)
	if err != nil {
		return nil, agent, err
	}
	shell.User = agent.User
	if shell.Transcript, _, err = t.kept.read(ctx, agent.UID, shell.Session); err != nil {
		l.Return()
		return nil, agent, err
	}
	return l, agent, nil
}

// Cancel ends the command that runs in a session, or a certain call, also while it
// waits; it returns when that has ended. It fails with fault.NotFound when there
// is none.
func (t *Terminals) Cancel(ctx context.Context, ref string, id config.SessionID, which config.CallID) error {
	const op = "cancel command"
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return err
	}
	l, ok := t.Sandbox.BorrowRunning()
	if !ok {
		return fault.Newf(fault.NotFound, op, string(id), "no guest runs, and so no command").Advise("It has ended with its guest.")
	}
	defer l.Return()
	return l.Explain(ctx, op, string(id), l.Shells().CancelShell(ctx, agent.User, id, which))
}

// Attachment is a person before the shell of a session.
type Attachment struct {
	*guest.Attachment
	loan *machine.Loan
	ctx  context.Context
}

// Wait is guest.Attachment's.
func (a *Attachment) Wait() (engine.ShellEnd, error) {
	end, err := a.Attachment.Wait()
	return end, a.loan.Explain(a.ctx, "follow session", "", err)
}

// Attach puts a person before a session's shell. It is guest.Client's
// AttachShell; User and Transcript are not the caller's to say.
func (t *Terminals) Attach(ctx context.Context, ref string, shell engine.Shell, size engine.TerminalSize, output io.Writer, by machine.Cause) (*Attachment, error) {
	l, agent, err := t.enter(ctx, ref, &shell)
	if err != nil {
		return nil, err
	}
	a, err := l.Shells().AttachShell(ctx, shell, size, output)
	if err != nil {
		l.Return()
		return nil, l.Explain(ctx, "attach to session", string(shell.Session), err)
	}
	t.scribe.used(agent, shell.Session, by)
	t.beside(func() {
		defer l.Return()
		defer t.scribe.used(agent, shell.Session, by)
		tick := time.NewTicker(attachedEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.scribe.used(agent, shell.Session, by)
			case <-a.Done():
				return
			case <-t.life.Done():
				return
			}
		}
	})
	return &Attachment{a, l, ctx}, nil
}

// Sessions lists the sessions of an agent, or of all for an empty name, by
// agent and session: those of the guest that runs, and those of which a
// transcript is kept.
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
			s.Command = clipped(t.Agents.Redacted(agent), s.Command)
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

// living are the sessions of the guest that runs.
func (t *Terminals) living(ctx context.Context, who []agents.Agent, ref string) ([]engine.Session, error) {
	l, ok := t.Sandbox.Visit()
	if !ok {
		return nil, nil
	}
	defer l.Return()
	var user config.LinuxUser
	if ref != "" {
		user = who[0].User
	}
	list, err := l.Shells().Sessions(ctx, user)
	return list, l.Explain(ctx, "list sessions", ref, err)
}

// Transcript is the end of what was typed and shown in a session, also of one
// that has ended, without the agent's secrets. A guest that does not answer is
// done without.
func (t *Terminals) Transcript(ctx context.Context, ref string, id config.SessionID) (string, error) {
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return "", err
	}
	trouble := error(fault.Newf(fault.NotFound, "read transcript", string(id), "there is no such session").
		Advise("See `osaurus-sandbox session list`."))
	if l, ok := t.Sandbox.Visit(); ok {
		defer l.Return()
		text, _, err := l.Shells().Transcript(ctx, agent.User, id)
		if err == nil {
			return redactTranscript(t.Agents.Redact(ctx, agent).Scrubber(), text), nil
		}
		if fault.KindOf(err) != fault.NotFound {
			trouble = err
		}
	}
	text, ok, err := t.kept.read(ctx, agent.UID, id)
	if err == nil && !ok {
		err = trouble
	}
	return text, err
}

// CloseSession ends a session and all that runs in it, and forgets its transcript.
func (t *Terminals) CloseSession(ctx context.Context, ref string, id config.SessionID, by machine.Cause) error {
	const op = "close session"
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return err
	}
	defer t.scribe.ends(place{agent.UID, id})()
	lived := false
	if l, ok := t.Sandbox.BorrowRunning(); ok {
		defer l.Return()
		_, err := l.Shells().CloseSession(ctx, agent.User, id)
		if lived = err == nil; !lived && fault.KindOf(err) != fault.NotFound {
			return l.Explain(ctx, op, string(id), err)
		}
	}
	kept := false
	err = t.scribe.turn(ctx, func() (err error) {
		t.scribe.closed(agent, id)
		kept, err = t.kept.forget(ctx, agent.UID, id)
		return err
	})
	switch {
	case err != nil:
		return err
	case !lived && !kept:
		return fault.Newf(fault.NotFound, op, string(id), "there is no such session").Advise("See `osaurus-sandbox session list`.")
	}
	t.note(SessionClosed, by, agent, map[string]string{"session": string(id)})
	return nil
}

package agents

import (
	"cmp"
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/machine"
)

// room is what an agent's room shall be. Its host name changes when the home
// does: never under what runs in it.
func (a Agent) room() engine.RoomConfig {
	l := a.Settings.Limits
	return engine.RoomConfig{
		User: a.User, UID: a.UID, Home: a.Home(), Hostname: string(a.Folder), Network: engine.RoomNetwork(a.Settings.Network), HostServices: a.Settings.HostServices,
		Limits: engine.Limits{
			CPUWeight: uint32(l.CPUWeight), CPUMaxMillis: uint32(l.CPUPercent * 10), Memory: uint64(l.MemoryMB) * megabyte, PIDs: uint32(l.Processes),
			Disk: uint64(l.DiskMB) * megabyte, DiskFiles: uint64(l.DiskFiles), IO: uint64(l.DiskMBps) * megabyte,
		},
	}
}

// Exec starts a command as an agent, in its room, and before it the guest and
// the room if need be. It is as supervisor.Supervisor.Exec otherwise, but that
// the agent's secrets are taken out of what the command writes.
func (a *Agents) Exec(ctx context.Context, ref string, cmd engine.Command) (machine.Process, error) {
	return a.exec(ctx, ref, cmd, a.Sandbox.Borrow)
}

// ExecRunning is Exec in the guest that runs. Without one it is Unavailable.
func (a *Agents) ExecRunning(ctx context.Context, ref string, cmd engine.Command) (machine.Process, error) {
	return a.exec(ctx, ref, cmd, a.borrowRunning)
}

func (a *Agents) exec(ctx context.Context, ref string, cmd engine.Command, borrow borrow) (machine.Process, error) {
	l, m, err := a.enter(ctx, ref, borrow)
	if err != nil {
		return nil, err
	}
	defer l.Return()
	agent := a.agentOf(m)
	cmd.Room = agent.User
	output := a.redact(ctx, agent, &cmd)
	p, err := l.Exec(ctx, cmd)
	if err != nil {
		return nil, a.orDeleted(agent, err)
	}
	return inRoom{p, a, agent, output}, nil
}

// inRoom is an agent's process. Its output is all written when Wait returns.
type inRoom struct {
	machine.Process
	agents *Agents
	agent  Agent
	output *redact.Output
}

func (p inRoom) Wait() (engine.Exit, error) {
	exit, err := p.Process.Wait()
	if err != nil {
		err = p.agents.orDeleted(p.agent, err)
	}
	return exit, cmp.Or(err, p.output.Close())
}

// orDeleted is what broke a command of an agent's, or that the agent was deleted, if it was: the
// guest knows only that the room was ended, and not that it is not made anew.
func (a *Agents) orDeleted(agent Agent, err error) error {
	if a.Has(agent.ID) {
		return err
	}
	return deleted("work as agent", string(agent.Name))
}

func deleted(op, subject string) error {
	return fault.Newf(fault.NotFound, op, subject, "the agent was deleted, and what ran in its room was ended").Advise("See `osaurus-sandbox agent list` for those that there are.")
}

// broken is what was being done with an agent's room and could not be finished. It names neither
// the command that was doing it there nor the room: nobody has asked for these.
func (a *Agents) broken(op, subject string, agent Agent, err error) error {
	if !a.Has(agent.ID) {
		return deleted(op, subject)
	}
	why := err
	for e, ok := why.(*fault.Error); ok && e.Op == engine.OpRun && e.Err != nil; e, ok = why.(*fault.Error) {
		why = e.Err
	}
	return fault.New(fault.KindOf(err), op, subject, why).Advise(fault.AdviceOf(err))
}

// borrow lends a guest.
type borrow func(context.Context) (*machine.Loan, error)

// borrowRunning is a borrow that starts none. As with every other, nothing is begun in a
// guest that does not answer: it would begin when nobody waits for it any more.
func (a *Agents) borrowRunning(context.Context) (*machine.Loan, error) {
	const op = "find guest"
	if a.silent() {
		return nil, fault.Newf(fault.Unavailable, op, "", "it does not answer").Advise("See `osaurus-sandbox status`; a silent guest is started again by itself.")
	}
	if l, ok := a.Sandbox.Visit(); ok { // what is begun in it has a loan of its own
		return l, nil
	}
	return nil, fault.Newf(fault.Unavailable, op, "", "none runs").Advise("Start it: osaurus-sandbox up")
}

// silent reports whether the guest that runs is known not to answer.
func (a *Agents) silent() bool { return a.Sandbox.Status().State == machine.Unresponsive }

// enter lends the guest with an agent's room made in it.
func (a *Agents) enter(ctx context.Context, ref string, borrow borrow) (*machine.Loan, *member, error) {
	m, err := a.find(ref)
	if err != nil {
		return nil, nil, err
	}
	l, err := borrow(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := a.provision(ctx, l, m); err != nil {
		l.Return()
		return nil, nil, err
	}
	return l, m, nil
}

// Enter lends the guest with an agent's room made in it, for what is more than
// a command. The loan must be returned.
func (a *Agents) Enter(ctx context.Context, ref string) (*machine.Loan, Agent, error) {
	return a.enterAgent(ctx, ref, a.Sandbox.Borrow)
}

// EnterRunning is Enter for the guest that runs. Without one it is Unavailable.
func (a *Agents) EnterRunning(ctx context.Context, ref string) (*machine.Loan, Agent, error) {
	return a.enterAgent(ctx, ref, a.borrowRunning)
}

func (a *Agents) enterAgent(ctx context.Context, ref string, borrow borrow) (*machine.Loan, Agent, error) {
	l, m, err := a.enter(ctx, ref, borrow)
	if err != nil {
		return nil, Agent{}, err
	}
	return l, a.agentOf(m), nil
}

// provision has an agent's room be in the guest. Once it is, that costs
// nothing; until then everybody who asks shares one question to the guest.
func (a *Agents) provision(ctx context.Context, l *machine.Loan, m *member) error {
	if a.isMade(l, m) {
		return nil
	}
	const op = "make room"
	user := a.agentOf(m).User
	end, err := a.turn(ctx, user, op, string(user))
	if err != nil {
		return err
	}
	defer end()
	if a.isMade(l, m) {
		return nil
	}
	if err := a.clearNow(ctx, l, user); err != nil {
		return err
	}
	if a.madeOf(m).in != l.Guest {
		if err := a.follow(ctx, m); err != nil {
			a.Log.Warn("an agent's home folder does not have its name", "agent", a.agentOf(m).Name, "error", err)
		}
	}
	return a.ensure(ctx, l, m)
}

// isMade reports whether an agent's room is in the guest, as it shall be.
func (a *Agents) isMade(l *machine.Loan, m *member) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.made == made{l.Guest, m.room()} && !m.gone
}

// ensure asks the guest for an agent's room. The turn for it is the caller's.
func (a *Agents) ensure(ctx context.Context, l *machine.Loan, m *member) error {
	const op = "make room"
	agent, token, err := a.admit(l.Guest, m)
	if err != nil {
		return err
	}
	if err := a.makeHome(agent); err != nil {
		return err
	}
	room := agent.room()
	ensured, err := l.Rooms().EnsureRoom(ctx, room, string(token))
	if err != nil {
		a.setMade(m, made{in: l.Guest})
		return l.Explain(ctx, op, string(agent.User), err)
	}
	if ensured.Anew {
		a.note(Reset, AnotherBase, agent, nil)
	}
	for _, what := range ensured.Lacks {
		a.Log.Warn("an agent's room is not as it should be", "agent", agent.Name, "lacks", what)
	}
	a.setMade(m, made{l.Guest, room})
	return nil
}

func (a *Agents) setMade(m *member, to made) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.made = to
}

// apply has changed settings count in the guest that runs. An agent without a
// room there gets them with its room. Nobody waits for a guest that does not answer, or that
// falls silent meanwhile: tidy applies them when it does answer.
func (a *Agents) apply(ctx context.Context, m *member) error {
	const op = "limit room"
	l, ok := a.Sandbox.Visit()
	if !ok {
		return nil
	}
	defer l.Return()
	heard, end := a.whileHeard(ctx)
	defer end()
	err := a.applyNow(heard, l, m)
	if err == nil || context.Cause(heard) != machine.ErrSilent {
		return err
	}
	agent := a.agentOf(m)
	if was := a.madeOf(m); was.in != l.Guest || was.room == agent.room() {
		return nil
	}
	return fault.New(fault.Unavailable, op, string(agent.User), machine.ErrSilent).
		Advise("The settings are kept, and count once it answers or is started again: see `osaurus-sandbox status`.")
}

// whileHeard is a context that ends when the guest is known not to answer.
func (a *Agents) whileHeard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	status := a.Sandbox.Status()
	if status.State == machine.Unresponsive {
		end(machine.ErrSilent) // before anything is asked
	}
	go func() {
		for status.State != machine.Unresponsive {
			var err error
			if status, err = a.Sandbox.Next(ctx, status.Revision); err != nil {
				return // the context or the sandbox has ended
			}
		}
		end(machine.ErrSilent)
	}()
	return ctx, func() { end(nil) }
}

// applyNow is apply in a guest that answers.
func (a *Agents) applyNow(ctx context.Context, l *machine.Loan, m *member) error {
	const op = "limit room"
	agent := a.agentOf(m)
	if err := ctx.Err(); err != nil {
		return fault.Wrap(op, string(agent.User), err)
	}
	end, err := a.turn(ctx, agent.User, op, string(agent.User))
	if err != nil {
		return err
	}
	defer end()
	agent = a.agentOf(m) // as it is by now
	was, want := a.madeOf(m), made{l.Guest, agent.room()}
	if was.in != want.in || was == want {
		return nil
	}
	if was.room.Limits = want.room.Limits; was != want { // more than limits
		return a.ensure(ctx, l, m)
	}
	if err := l.Rooms().SetRoomLimits(ctx, agent.User, want.room.Limits); err != nil {
		a.setMade(m, made{in: l.Guest}) // the next command sees to it
		return l.Explain(ctx, op, string(agent.User), err)
	}
	a.setMade(m, want)
	return nil
}

// Reset ends all that an agent runs and throws away what it installed or
// changed outside its home folder. It starts the guest if need be.
func (a *Agents) Reset(ctx context.Context, ref string, by machine.Cause) error {
	const op = "reset agent"
	m, err := a.find(ref)
	if err != nil {
		return err
	}
	l, err := a.Sandbox.Borrow(ctx)
	if err != nil {
		return err
	}
	defer l.Return()
	agent := a.agentOf(m)
	end, err := a.turn(ctx, agent.User, op, string(agent.Name))
	if err != nil {
		return err
	}
	defer end()
	a.mu.Lock()
	if m.gone { // while the guest started, perhaps; what its user has now is another agent's
		a.mu.Unlock()
		return notFound(string(agent.Name))
	}
	m.made = made{in: l.Guest}
	a.revoke(m)
	a.mu.Unlock()
	// A guest that is asked does it, whoever still waits, and may be doing it when its time is over.
	err = l.Rooms().ResetRoom(context.WithoutCancel(ctx), agent.User)
	if err == nil {
		a.setMade(m, made{})
	}
	if err == nil || fault.KindOf(err) == fault.Timeout {
		a.note(Reset, by, agent, nil)
	}
	return l.Explain(ctx, op, string(agent.Name), err)
}

// clear removes what deleted agents of a user may have in the guest.
func (a *Agents) clear(ctx context.Context, l *machine.Loan, user config.LinuxUser) error {
	end, err := a.turn(ctx, user, "remove room", string(user))
	if err != nil {
		return err
	}
	defer end()
	return a.clearNow(ctx, l, user)
}

// clearNow is clear for who has the turn.
func (a *Agents) clearNow(ctx context.Context, l *machine.Loan, user config.LinuxUser) error {
	a.mu.Lock()
	left := a.remains[user]
	a.mu.Unlock()
	if !left {
		return nil
	}
	if err := l.Rooms().RemoveRoom(ctx, user, true); err != nil {
		return l.Explain(ctx, "remove room", string(user), err)
	}
	if err := a.rows.cleared(ctx, user); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.remains, user)
	return nil
}

package agents

import (
	"cmp"
	"context"
	"io"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/machine"
)

// Room is an agent's room. Each call finds the agent, starts its machine and
// makes the room if necessary. The agent's secrets are removed from the output
// of commands.
type Room struct {
	agents  *Agents
	agent   string // name or id
	running bool   // fail instead of starting the machine
}

// Room returns the room of an agent.
func (a *Agents) Room(agent string) Room { return Room{agents: a, agent: agent} }

// RunningRoom returns the room of an agent in the machine that runs. Without
// one, calls fail with Unavailable.
func (a *Agents) RunningRoom(agent string) Room { return Room{a, agent, true} }

var (
	_ engine.Executor = Room{}
	_ engine.Files    = Room{}
)

// Agent returns the agent as it is now.
func (r Room) Agent() (Agent, error) { return r.agents.Get(r.agent) }

// Enter leases the agent's machine, with the room in it.
func (r Room) Enter(ctx context.Context) (*machine.Lease, Agent, error) {
	a := r.agents
	m, err := a.find(r.agent)
	if err != nil {
		return nil, Agent{}, err
	}
	lease, err := a.acquire(ctx, m.ID, r.running)
	if err != nil {
		return nil, Agent{}, err
	}
	if err := a.provision(ctx, lease, m); err != nil {
		lease.Release()
		return nil, Agent{}, err
	}
	return lease, a.agentOf(m), nil
}

// acquire leases an agent's machine. With running, it starts none and does not
// use one that is silent: a command would begin when nobody waits for it anymore.
func (a *Agents) acquire(ctx context.Context, agent config.AgentID, running bool) (*machine.Lease, error) {
	const op = "find guest"
	vm := a.Machines.For(agent)
	if !running {
		return vm.Acquire(ctx)
	}
	if vm.Silent() {
		return nil, fault.New(fault.Unavailable, op, "", guest.ErrSilent).Advise("See `osaurus-sandbox status`; a silent guest is restarted.")
	}
	if l, ok := vm.Peek(); ok { // each command has a lease of its own
		return l, nil
	}
	return nil, fault.Newf(fault.Unavailable, op, "", "none runs").Advise("Start it: osaurus-sandbox up")
}

// Exec starts a command in the room of an agent.
func (a *Agents) Exec(ctx context.Context, agent string, cmd engine.Command) (engine.Process, error) {
	return a.Room(agent).Exec(ctx, cmd)
}

// Exec implements engine.Executor.
func (r Room) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	lease, agent, err := r.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	if cmd.Network, cmd.Address, err = agent.PluginNetwork(lease, cmd.Plugin, cmd.Network); err != nil {
		return nil, err
	}
	output := r.agents.redact(ctx, agent, &cmd)
	p, err := lease.Exec(ctx, agent.User, cmd)
	if err != nil {
		return nil, r.agents.orDeleted(agent, err)
	}
	return process{p, r.agents, agent, output}, nil
}

// process is an agent's process. Its output is all written when Wait returns.
type process struct {
	engine.Process
	agents *Agents
	agent  Agent
	output *redact.Output
}

func (p process) Wait() (engine.Exit, error) {
	exit, err := p.Process.Wait()
	if err != nil {
		err = p.agents.orDeleted(p.agent, err)
	}
	return exit, cmp.Or(err, p.output.Close())
}

// orDeleted returns the error of an agent's command, or that the agent was
// deleted meanwhile.
func (a *Agents) orDeleted(agent Agent, err error) error {
	if a.Has(agent.ID) {
		return err
	}
	return deleted("work as agent", string(agent.Name))
}

func deleted(op, subject string) error {
	return fault.Newf(fault.NotFound, op, subject, "the agent was deleted").Advise("List the agents: osaurus-sandbox agent list")
}

// broken returns the error of work in an agent's room that could not be
// finished. It leaves out the command that did the work, which the caller has
// not asked for.
func (a *Agents) broken(op, subject string, agent Agent, err error) error {
	if !a.Has(agent.ID) {
		return deleted(op, subject)
	}
	why := err
	for e, ok := why.(*fault.Error); ok && (e.Op == engine.OpRun || e.Op == op) && e.Err != nil; e, ok = why.(*fault.Error) {
		why = e.Err
	}
	return fault.New(fault.KindOf(err), op, subject, why).Advise(fault.AdviceOf(err))
}

// run runs a helper in the room, whose output is not redacted. Errors are about op and subject.
func (r Room) run(ctx context.Context, op, subject string, cmd engine.Command) (exit engine.Exit, err error) {
	l, agent, err := r.Enter(ctx)
	if err != nil {
		return exit, err
	}
	defer l.Release()
	if exit, err = engine.Run(ctx, l.Room(agent.User), cmd); err != nil {
		return exit, r.agents.broken(op, subject, agent, err)
	}
	return exit, nil
}

// files does something with the files of the room.
func (r Room) files(ctx context.Context, do func(engine.Files) error) error {
	lease, agent, err := r.Enter(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	return do(lease.Room(agent.User))
}

// StatFile implements engine.Files.
func (r Room) StatFile(ctx context.Context, file engine.File) (info engine.FileInfo, err error) {
	err = r.files(ctx, func(f engine.Files) (err error) { info, err = f.StatFile(ctx, file); return err })
	return info, err
}

// ListFolder implements engine.Files.
func (r Room) ListFolder(ctx context.Context, folder engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	err = r.files(ctx, func(f engine.Files) (err error) { list, more, err = f.ListFolder(ctx, folder, limit); return err })
	return list, more, err
}

// ReadFile implements engine.Files.
func (r Room) ReadFile(ctx context.Context, file engine.File, part engine.FilePart, to io.Writer) (read engine.FileRead, err error) {
	err = r.files(ctx, func(f engine.Files) (err error) { read, err = f.ReadFile(ctx, file, part, to); return err })
	return read, err
}

// WriteFile implements engine.Files.
func (r Room) WriteFile(ctx context.Context, file engine.File, w engine.FileWrite) (done engine.FileWritten, err error) {
	err = r.files(ctx, func(f engine.Files) (err error) { done, err = f.WriteFile(ctx, file, w); return err })
	return done, err
}

// SearchFiles implements engine.Files.
func (r Room) SearchFiles(ctx context.Context, file engine.File, s engine.FileSearch, found func(engine.FileMatch) error) (end engine.SearchEnd, err error) {
	err = r.files(ctx, func(f engine.Files) (err error) { end, err = f.SearchFiles(ctx, file, s, found); return err })
	return end, err
}

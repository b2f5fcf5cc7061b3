package pluginhost

import (
	"context"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolbench"
	"osaurus-sandbox/tools"
)

// rooms is where agents have their plugins.
func (b *Bench) rooms() install.Rooms {
	return rooms{toolbench.Rooms(b.Tools), toolbench.Files(b.Tools), b.Options}
}

type rooms struct {
	tools.Rooms
	tools.Files
	home Options
}

var _ install.Rooms = (*rooms)(nil)

func (r rooms) Agent(id config.AgentID) (tools.Agent, error) { return r.home.agent(id) }

// agent is an agent as tools know it.
func (o Options) agent(id config.AgentID) (tools.Agent, error) {
	a, err := o.Tools.Agents.Get(string(id))
	return toolbench.AgentOf(a), err
}

func (r rooms) Start(ctx context.Context) error {
	l, err := r.home.sandbox().Borrow(ctx)
	if err == nil {
		l.Return()
	}
	return err
}

func (r rooms) Boot() string { return bootOf(r.home.sandbox().Status()) }

// bootOf names the guest that runs, be it one that does not answer at the moment: what
// belongs to it goes on when it does.
func bootOf(s machine.Status) string {
	if !s.State.HasGuest() {
		return ""
	}
	return fmt.Sprint(s.StartedAt.UnixNano())
}

func (o Options) sandbox() *machine.Machine { return o.Tools.Agents.Sandbox }

// running are the rooms of the guest that runs: what plugins do by themselves starts none.
func (b *Bench) running() life.Rooms { return running{toolbench.Rooms(b.Tools), b.Options} }

type running struct {
	tools.Rooms
	home Options
}

var _ life.Rooms = (*running)(nil)

func (r running) Boot() string { return bootOf(r.home.sandbox().Status()) }

func (r running) Silent() bool { return r.home.sandbox().Status().State == machine.Unresponsive }

func (r running) Exec(ctx context.Context, a tools.Agent, cmd engine.Command) (engine.Process, error) {
	return r.home.Tools.Agents.ExecRunning(ctx, string(a.ID), cmd)
}

func (r running) StartJob(ctx context.Context, a tools.Agent, cmd engine.JobCommand) (engine.Job, error) {
	j, err := r.home.Tools.Terminals.StartJobRunning(ctx, string(a.ID), cmd, by)
	return j.Job, err
}

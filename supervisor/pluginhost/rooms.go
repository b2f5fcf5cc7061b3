package pluginhost

import (
	"context"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// rooms are the rooms in which plugins are installed.
type rooms struct{ Options }

var _ install.Rooms = rooms{}

// Agent finds an agent.
func (r rooms) Agent(id config.AgentID) (tools.Agent, error) { return r.agent(id) }

// agent finds an agent.
func (o Options) agent(id config.AgentID) (tools.Agent, error) {
	a, err := o.Tools.Agents.Get(string(id))
	return toolhost.AgentOf(a), err
}

// Start starts the guest.
func (r rooms) Start(ctx context.Context) error {
	l, err := r.machine().Acquire(ctx)
	if err == nil {
		l.Release()
	}
	return err
}

// Boot names the guest that runs.
func (r rooms) Boot() string { return r.boot() }

func (o Options) boot() string { return bootOf(o.machine().Status()) }

// Room returns the room of an agent.
func (r rooms) Room(a tools.Agent) engine.Room { return r.Tools.Room(a) }

// bootOf names the guest that runs, also one that does not answer at the moment.
func bootOf(s machine.Status) string {
	if !s.State.HasGuest() {
		return ""
	}
	return fmt.Sprint(s.StartedAt.UnixNano())
}

func (o Options) machine() *machine.Machine { return o.Tools.Agents.Machines.Shared() }

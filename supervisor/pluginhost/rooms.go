package pluginhost

import (
	"context"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// agent finds an agent.
func (o Options) agent(id config.AgentID) (tools.Agent, error) {
	a, err := o.Tools.Agents.Get(string(id))
	return toolhost.AgentOf(a), err
}

// start starts the guest.
func (o Options) start(ctx context.Context) error {
	l, err := o.machine().Acquire(ctx)
	if err == nil {
		l.Release()
	}
	return err
}

// boot identifies the running guest.
func (o Options) boot() string { return bootOf(o.machine().Status()) }

// bootOf identifies the running guest, even if it does not answer. It is empty if none runs.
func bootOf(s machine.Status) string {
	if !s.State.HasGuest() {
		return ""
	}
	return fmt.Sprint(s.StartedAt.UnixNano())
}

func (o Options) machine() *machine.Machine { return o.Tools.Agents.Machines.Shared() }

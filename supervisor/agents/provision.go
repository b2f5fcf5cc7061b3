package agents

import (
	"context"
	"net/netip"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/machine"
)

// room returns the desired room of an agent in a guest. Its host name is that of the home
// folder, which never changes.
func (a Agent) room(in machine.Guest, trust *engine.Trust) (engine.RoomConfig, error) {
	room := engine.RoomConfig{User: a.User, UID: a.UID, Home: a.Home(), Hostname: string(a.Folder), Limits: a.limits()}
	gateway := in.Gateway()
	if gateway == nil || a.Settings.Network == config.NetworkClosed {
		return room, nil
	}
	var err error
	room.Trust = trust
	room.Address, err = gateway.Join(network.Subject{Agent: a.ID})
	return room, err
}

// limits returns those of the agent's room.
func (a Agent) limits() engine.Limits {
	l := a.Settings.Limits
	return engine.Limits{
		CPUWeight: uint32(l.CPUWeight), CPUMaxMillis: uint32(l.CPUPercent * 10), Memory: uint64(l.MemoryMB) * megabyte, PIDs: uint32(l.Processes),
		Disk: uint64(l.DiskMB) * megabyte, DiskFiles: uint64(l.DiskFiles), IO: uint64(l.DiskMBps) * megabyte,
	}
}

// PluginNetwork returns the network of a plugin's command in a guest, and the plugin's address there.
func (a Agent) PluginNetwork(in machine.Guest, plugin config.PluginID, want engine.PluginNetwork) (engine.PluginNetwork, netip.Addr, error) {
	if want != engine.NetworkOfPlugin {
		return want, netip.Addr{}, nil
	}
	gateway := in.Gateway()
	if gateway == nil || a.Settings.Network == config.NetworkClosed {
		return engine.NoNetwork, netip.Addr{}, nil
	}
	address, err := gateway.Join(network.Subject{Agent: a.ID, Plugin: plugin})
	return want, address, err
}

// hasRoom reports whether a guest has the agent's room as it is desired.
func (a Agent) hasRoom(m made, trust *engine.Trust) bool {
	if m.in == nil {
		return false
	}
	room, err := a.room(m.in, trust)
	return err == nil && m.room == room
}

// provision makes an agent's room in the guest, once. Concurrent callers share
// one request.
func (a *Agents) provision(ctx context.Context, l *machine.Lease, m *member) error {
	a.PrepareTrust(ctx, a.agentOf(m))
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
	return a.ensure(ctx, l, m)
}

// isMade reports whether the guest has an agent's room as it is desired.
func (a *Agents) isMade(l *machine.Lease, m *member) bool {
	if a.Lost(m.ID) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.made.in == l.Guest && m.hasRoom(m.made, a.Trust()) && !m.gone
}

// ensure asks the guest for an agent's room. The caller has the turn.
func (a *Agents) ensure(ctx context.Context, l *machine.Lease, m *member) error {
	agent, token, err := a.admit(l.Guest, m)
	if err != nil {
		return err
	}
	if agent.Unfinished { // and could not be deleted
		return fault.Newf(fault.Rejected, "make room", string(agent.Name), "the agent is incomplete").Advise("Delete it: osaurus-sandbox agent delete " + string(agent.Name))
	}
	if err := a.makeHome(agent); err != nil {
		return err
	}
	room, err := agent.room(l.Guest, a.Trust())
	if err != nil {
		return err
	}
	ensured, err := l.EnsureRoom(ctx, room, string(token))
	if err != nil {
		a.setMade(m, made{in: l.Guest})
		return err
	}
	if ensured.Anew {
		a.note(Reset, AnotherBase, agent, nil)
	}
	for _, what := range ensured.Lacks {
		a.Log.Warn("an agent's room lacks something", "agent", agent.Name, "lacks", what)
	}
	a.Made(ctx, l, agent)
	a.setMade(m, made{l.Guest, room})
	return nil
}

func (a *Agents) setMade(m *member, to made) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.made = to
}

// apply applies changed settings to the agent's room, if it has one. A guest that is silent is not
// asked: tidy applies them when it answers.
func (a *Agents) apply(ctx context.Context, m *member) error {
	const op = "limit room"
	vm := a.machine(m)
	l, ok := vm.Peek()
	if !ok {
		return nil
	}
	defer l.Release()
	user := a.agentOf(m).User
	end, err := a.turn(ctx, user, op, string(user))
	if err != nil {
		return err
	}
	defer end()
	if agent, was := a.agentOf(m), a.madeOf(m); was.in != l.Guest || agent.hasRoom(was, a.Trust()) {
		return nil
	}
	if !vm.Silent() {
		if err := a.ensure(ctx, l, m); err == nil || !vm.Silent() {
			return err
		}
	}
	return fault.New(fault.Unavailable, op, string(user), guest.ErrSilent).
		Advise("The settings are saved and take effect when the guest answers or is restarted: see `osaurus-sandbox status`.")
}

// Reset ends everything that an agent runs and discards what it installed or
// changed outside of its home. It starts the guest if necessary.
func (a *Agents) Reset(ctx context.Context, ref string, by machine.Cause) error {
	const op = "reset agent"
	m, err := a.find(ref)
	if err != nil {
		return err
	}
	l, err := a.machine(m).Acquire(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	agent := a.agentOf(m)
	end, err := a.turn(ctx, agent.User, op, string(agent.Name))
	if err != nil {
		return err
	}
	defer end()
	a.mu.Lock()
	if m.gone { // while the guest started; the user may be another agent's by now
		a.mu.Unlock()
		return notFound(string(agent.Name))
	}
	m.made = made{in: l.Guest}
	a.revoke(m)
	a.mu.Unlock()
	// A guest that was asked does it even when nobody waits anymore.
	err = l.ResetRoom(context.WithoutCancel(ctx), agent.User)
	if err == nil {
		a.setMade(m, made{})
	}
	if err == nil || fault.KindOf(err) == fault.Timeout {
		a.note(Reset, by, agent, nil)
	}
	return err
}

// clear removes the rooms that deleted agents of a user may have in the guest.
func (a *Agents) clear(ctx context.Context, l *machine.Lease, user config.LinuxUser) error {
	end, err := a.turn(ctx, user, "remove room", string(user))
	if err != nil {
		return err
	}
	defer end()
	return a.clearNow(ctx, l, user)
}

// clearNow is clear for a caller who has the turn.
func (a *Agents) clearNow(ctx context.Context, l *machine.Lease, user config.LinuxUser) error {
	a.mu.Lock()
	left := a.remains[user]
	a.mu.Unlock()
	if !left {
		return nil
	}
	if err := l.RemoveRoom(ctx, user, true); err != nil {
		return err
	}
	if err := a.rows.cleared(ctx, user); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.remains, user)
	return nil
}

package agents

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// The kinds of events of snapshots. The detail of Snapshotted is the action.
const (
	Snapshotted events.Kind = "agent.snapshot"
	Restored    events.Kind = "agent.restored"
)

// BeforeInstall begins the names of the snapshots that are made before packages are installed.
const BeforeInstall config.SnapshotName = "before-install"

// Snapshots calls do with the snapshots of the room. That may end the room; the next command makes it again.
func (r Room) Snapshots(ctx context.Context, do func(*machine.Lease, engine.Snapshots, Agent) error) error {
	l, agent, err := r.Enter(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	s, err := snapshotsOf(l)
	if err == nil {
		err = do(l, s, agent)
	}
	if m, missing := r.agents.find(r.agent); missing == nil {
		r.agents.setMade(m, made{in: l.Guest})
	}
	if err != nil {
		return r.agents.orDeleted(agent, err)
	}
	return nil
}

func snapshotsOf(l *machine.Lease) (engine.Snapshots, error) {
	if s, ok := l.Guest.(engine.Snapshots); ok {
		return s, nil
	}
	return nil, fault.Newf(fault.Unavailable, "find snapshots", "", "the engine has none")
}

// ChangeSnapshot changes the snapshots of what an agent has changed outside of its home: see
// engine.Snapshots.
func (a *Agents) ChangeSnapshot(ctx context.Context, ref string, action engine.SnapshotAction, name config.SnapshotName, stop bool, by machine.Cause) (made string, err error) {
	err = a.Room(ref).Snapshots(ctx, func(_ *machine.Lease, s engine.Snapshots, agent Agent) (err error) {
		// A guest that was asked does it even when nobody waits anymore.
		made, err = s.ChangeSnapshot(context.WithoutCancel(ctx), agent.User, action, name, stop)
		kind, what := Snapshotted, string(name)
		switch action {
		case engine.CreateSnapshot:
			what = made // nothing if nothing has changed
		case engine.RestoreSnapshot:
			kind = Restored
		}
		if err == nil && what != "" {
			a.note(kind, by, agent, map[string]string{"snapshot": what, "detail": string(action)})
		}
		return err
	})
	return made, err
}

package agents

import (
	"context"
	"errors"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// The kinds of events of snapshots.
const (
	Snapshotted     events.Kind = "agent.snapshot"
	Restored        events.Kind = "agent.restored"
	SnapshotDeleted events.Kind = "agent.snapshot_deleted"
)

// BeforeInstall begins the names of the snapshots that are made before packages are installed.
const BeforeInstall config.SnapshotName = "before-install"

// snapshots does something with the snapshots of the room.
func (r Room) snapshots(ctx context.Context, do func(engine.Snapshots, Agent) error) error {
	a := r.agents
	l, agent, err := r.Enter(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	s, ok := l.Guest.(engine.Snapshots)
	if !ok {
		return fault.New(fault.Unavailable, "find snapshots of", string(agent.Name), errors.New("its engine has none"))
	}
	if err := do(s, agent); err != nil {
		return a.orDeleted(agent, err)
	}
	return nil
}

// Snapshot freezes what an agent has changed outside of its home, under a name. It fails with Rejected
// if something runs in the room, unless stop ends that.
func (a *Agents) Snapshot(ctx context.Context, ref string, name config.SnapshotName, stop bool, by machine.Cause) (made engine.Snapshot, err error) {
	err = a.Room(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		if made, err = s.CreateSnapshot(ctx, agent.User, name, stop); err == nil {
			a.note(Snapshotted, by, agent, map[string]string{"snapshot": made.Name})
		}
		return err
	})
	return made, err
}

// AutoSnapshot makes a snapshot whose name begins with prefix, unless nothing has changed since the last
// one. It ends nothing that runs, but fails.
func (a *Agents) AutoSnapshot(ctx context.Context, ref string, prefix config.SnapshotName, by machine.Cause) error {
	return a.Room(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		snapshot, made, err := s.AutoSnapshot(ctx, agent.User, prefix)
		if made {
			a.note(Snapshotted, by, agent, map[string]string{"snapshot": snapshot.Name})
		}
		return err
	})
}

// Snapshots lists the snapshots of an agent's room, the oldest first. It starts no guest.
func (a *Agents) Snapshots(ctx context.Context, ref string) (list []engine.Snapshot, err error) {
	err = a.RunningRoom(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		list, err = s.ListSnapshots(ctx, agent.User)
		return err
	})
	return list, err
}

// SnapshotDiff lists what has changed outside of an agent's home since a snapshot, and reports whether
// there is more.
func (a *Agents) SnapshotDiff(ctx context.Context, ref string, name config.SnapshotName) (list []engine.PathChange, more bool, err error) {
	err = a.Room(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		list, more, err = s.DiffSnapshot(ctx, agent.User, name)
		return err
	})
	return list, more, err
}

// RestoreSnapshot makes everything outside of an agent's home what it was. What it is now is the
// snapshot before, if there was none like it.
func (a *Agents) RestoreSnapshot(ctx context.Context, ref string, name config.SnapshotName, stop bool, by machine.Cause) (before *engine.Snapshot, err error) {
	err = a.Room(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		// A guest that was asked does it even when nobody waits anymore.
		before, err = s.RestoreSnapshot(context.WithoutCancel(ctx), agent.User, name, stop)
		if err == nil {
			a.note(Restored, by, agent, map[string]string{"snapshot": string(name)})
		}
		return err
	})
	return before, err
}

// DeleteSnapshot deletes a snapshot.
func (a *Agents) DeleteSnapshot(ctx context.Context, ref string, name config.SnapshotName, by machine.Cause) error {
	return a.Room(ref).snapshots(ctx, func(s engine.Snapshots, agent Agent) error {
		err := s.DeleteSnapshot(ctx, agent.User, name)
		if err == nil {
			a.note(SnapshotDeleted, by, agent, map[string]string{"snapshot": string(name)})
		}
		return err
	})
}

package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// Forked is the kind of the event of a fork, beside Created.
const Forked events.Kind = "agent.forked"

// forking is the prefix of the home folder of a fork that is not whole yet. No agent has such a name.
const forking = ".forking-"

// Fork creates an agent with the settings of another one and the same root: what the other has changed
// there is frozen, and neither can change the other's. Fill fills its empty home. Fork fails with Rejected
// if something runs in the other's room, unless stop ends that. If it fails, the agent is deleted; if this
// program is killed, the next one deletes it.
func (a *Agents) Fork(ctx context.Context, ref string, n New, stop bool, fill func(from, to Agent) error, by machine.Cause) (made Agent, err error) {
	err = a.Room(ref).snapshots(ctx, func(l *machine.Lease, rooms engine.Snapshots, from Agent) error {
		name, err := nameOf(n)
		if err == nil {
			made, err = a.create(ctx, Agent{Name: name, Folder: config.AgentName(forking + rand.Text()), Settings: from.Settings}, n, by)
		}
		if err != nil {
			return err
		}
		if err := a.fork(ctx, l, made, func() error {
			if err := rooms.ForkRoom(ctx, from.User, made.User, made.UID, stop); err != nil {
				return err
			}
			return fill(from, made)
		}); err != nil {
			_, undone := a.Delete(context.WithoutCancel(ctx), string(made.ID), true, by)
			return errors.Join(err, undone)
		}
		a.note(Forked, by, made, map[string]string{"from": string(from.Name)})
		made, err = a.Get(string(made.ID))
		return err
	})
	return made, err
}

// fork makes what a new agent has with do. Nobody uses its room before all of it is there.
func (a *Agents) fork(ctx context.Context, l *machine.Lease, to Agent, do func() error) error {
	end, err := a.turn(ctx, to.User, "fork agent", string(to.Name))
	if err != nil {
		return err
	}
	defer end()
	if err := a.clearNow(ctx, l, to.User); err != nil { // of an earlier agent of the name
		return err
	}
	if err := do(); err != nil {
		return err
	}
	m, err := a.find(string(to.ID))
	if err != nil {
		return err
	}
	return a.follow(ctx, m)
}

// halfForked reports whether an earlier program has not finished an agent. If the agent's folder has been
// renamed, it is whole: see follow.
func (a *Agents) halfForked(agent Agent) bool {
	_, err := a.root.Lstat(agent.subtree())
	return agent.isForking() && !errors.Is(err, fs.ErrNotExist)
}

func (a Agent) isForking() bool { return strings.HasPrefix(string(a.Folder), forking) }

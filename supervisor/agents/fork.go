package agents

import (
	"context"
	"errors"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// Forked is the kind of the event of a fork, beside Created.
const Forked events.Kind = "agent.forked"

// Fork creates an agent with the settings of another one and the same root: what the other has changed
// there is frozen, and neither can change the other's. Fill fills its empty home. Fork fails with Rejected
// if something runs in the other's room, unless stop ends that.
func (a *Agents) Fork(ctx context.Context, ref string, n New, stop bool, fill func(from, to Agent) error, by machine.Cause) (made Agent, err error) {
	err = a.Room(ref).Snapshots(ctx, func(l *machine.Lease, rooms engine.Snapshots, from Agent) error {
		made, err = a.createFilled(ctx, n, from.Settings, func(to Agent) error {
			if err := a.clearNow(ctx, l, to.User); err != nil { // of an earlier agent of the name
				return err
			}
			if err := rooms.ForkRoom(ctx, from.User, to.User, to.UID, stop); err != nil {
				return err
			}
			return fill(from, to)
		}, by)
		if err == nil {
			a.note(Forked, by, made, map[string]string{"from": string(from.Name)})
		}
		return err
	})
	return made, err
}

// createFilled creates an agent whose home and room fill makes before anybody uses them. If it fails, the
// agent is deleted; if this program is killed, the next one deletes it.
func (a *Agents) createFilled(ctx context.Context, n New, settings config.AgentSettings, fill func(Agent) error, by machine.Cause) (Agent, error) {
	name, err := nameOf(n)
	if err != nil {
		return Agent{}, err
	}
	made, err := a.create(ctx, Agent{Name: name, Settings: settings, Unfinished: true}, n, by)
	if err != nil {
		return Agent{}, err
	}
	if err := a.fill(ctx, made, fill); err != nil {
		_, undone := a.Delete(context.WithoutCancel(ctx), string(made.ID), true, by)
		return Agent{}, errors.Join(err, undone)
	}
	return a.Get(string(made.ID))
}

func (a *Agents) fill(ctx context.Context, made Agent, fill func(Agent) error) error {
	end, err := a.turn(ctx, made.User, "create agent", string(made.Name))
	if err != nil {
		return err
	}
	defer end()
	if err = fill(made); err == nil {
		err = a.rows.finish(ctx, made)
	}
	if m, missing := a.find(string(made.ID)); err == nil && missing == nil {
		a.mu.Lock()
		m.Unfinished = false
		a.mu.Unlock()
	}
	return err
}

package agents

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"path"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// Forked is the kind of the event of a fork, beside Created.
const Forked events.Kind = "agent.forked"

// forking is the prefix of home folders that are being copied. No agent has such a name.
const forking = ".forking-"

// Fork creates an agent with the settings of another one, a copy of its home and the same root: what
// the other has changed there is frozen, and neither can change the other's. It fails with Rejected if
// something runs in the other's room, unless stop ends that. If it fails, is cancelled or killed, there
// is no new agent.
func (a *Agents) Fork(ctx context.Context, ref string, n New, stop bool, report progress.Func, by machine.Cause) (Agent, error) {
	const op = "fork agent"
	name, err := config.NameAgent(n.Name)
	if err != nil {
		return Agent{}, err
	}
	if name == Diagnostic {
		return Agent{}, fault.Newf(fault.Rejected, op, string(name), "the name is reserved for diagnostics").Advise("Choose another name.")
	}
	lease, from, err := a.Room(ref).Enter(ctx)
	if err != nil {
		return Agent{}, err
	}
	defer lease.Release()
	rooms, ok := lease.Guest.(engine.Snapshots)
	if !ok {
		return Agent{}, fault.New(fault.Unavailable, op, string(from.Name), errors.New("its engine cannot fork rooms"))
	}
	agent := Agent{Name: name, Folder: name, Created: time.Now().UTC()}
	if agent.ID, err = idFor(name, n.ID); err != nil {
		return Agent{}, err
	}
	if agent.Settings, err = with(from.Settings, n.Settings); err != nil {
		return Agent{}, err
	}
	agent, free, err := a.reserve(ctx, op, agent)
	if err != nil {
		return Agent{}, err
	}
	defer free()
	copied := path.Join(homes, forking+rand.Text())
	if err = a.clear(ctx, lease, agent.User); err == nil { // of an earlier agent of the name
		err = a.rows.remains(ctx, op, agent.User)
	}
	if err == nil {
		err = rooms.ForkRoom(ctx, from.User, agent.User, agent.UID, stop)
	}
	if err == nil {
		err = a.copyHome(ctx, from, copied, report)
	}
	if err == nil {
		err = a.adopt(ctx, op, agent, copied)
	}
	if err != nil {
		return Agent{}, errors.Join(a.orDeleted(from, err), a.undoFork(context.WithoutCancel(ctx), lease, agent, copied))
	}
	a.note(Created, by, agent, nil)
	a.note(Forked, by, agent, map[string]string{"from": string(from.Name)})
	a.keepMap()
	return agent, a.show(agent)
}

// reserve gives an agent that is being made its user and uid, and keeps its name free until free is
// called.
func (a *Agents) reserve(ctx context.Context, op string, agent Agent) (_ Agent, free func(), err error) {
	end, err := a.turn(ctx, everybody, op, string(agent.Name))
	if err != nil {
		return agent, nil, err
	}
	defer end()
	if err := a.mayBe(op, agent); err != nil {
		return agent, nil, err
	}
	if err := a.folderFree(op, agent.Name); err != nil {
		return agent, nil, err
	}
	if agent, err = a.rows.identify(ctx, op, agent); err != nil {
		return agent, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved[agent.Name] = agent.UID
	return agent, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.reserved, agent.Name)
	}, nil
}

// copyHome copies an agent's home folder on this computer. Programs may write to it meanwhile.
func (a *Agents) copyHome(ctx context.Context, from Agent, to string, report progress.Func) error {
	const op = "copy home folder"
	if err := a.root.Mkdir(to, privateDir); err != nil {
		return folderFault(op, to, err)
	}
	source, err := a.root.OpenRoot(from.subtree())
	if err != nil {
		return folderFault(op, from.subtree(), err)
	}
	defer source.Close()
	target, err := a.root.OpenRoot(to)
	if err != nil {
		return folderFault(op, to, err)
	}
	defer target.Close()
	meter := report.Start("copy the home folder", 0, 0)
	defer meter.Finish()
	_, err = clone.Tree(ctx, source, target, meter.Add)
	if err != nil && ctx.Err() == nil {
		err = folderFault(op, from.subtree(), err)
	}
	return err
}

// adopt makes a reserved agent known, with the home folder that was copied.
func (a *Agents) adopt(ctx context.Context, op string, agent Agent, copied string) error {
	end, err := a.turn(ctx, everybody, op, string(agent.Name))
	if err != nil {
		return err
	}
	defer end()
	if err := a.folderFree(op, agent.Name); err != nil {
		return err
	}
	if err := a.root.Rename(copied, agent.subtree()); err != nil {
		return folderFault(op, agent.subtree(), err)
	}
	if err := a.rows.adopt(ctx, op, agent); err != nil {
		return errors.Join(err, a.root.Rename(agent.subtree(), copied))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byName[agent.Name] = &member{Agent: agent}
	return nil
}

// undoFork removes what a fork that failed has made. What it cannot is removed later: see tidy.
func (a *Agents) undoFork(ctx context.Context, l *machine.Lease, agent Agent, copied string) error {
	ctx, cancel := context.WithTimeout(ctx, clearLimit)
	defer cancel()
	a.mu.Lock()
	a.remains[agent.User] = true
	a.mu.Unlock()
	if err := a.clear(ctx, l, agent.User); err != nil {
		a.Log.Warn("the room of a fork that failed is removed later", "user", agent.User, "error", err)
	}
	return remove(a.root, copied)
}

// identify gives a new agent its user and uid.
func (r registry) identify(ctx context.Context, op string, a Agent) (Agent, error) {
	err := r.db.Write(ctx, op, func(tx *sql.Tx) error { return identify(ctx, tx, &a) })
	return a, err
}

// remains records that a user may have a room in the guest that belongs to no agent. If this program is
// killed, the next one removes it.
func (r registry) remains(ctx context.Context, op string, user config.LinuxUser) error {
	_, err := r.db.Exec(ctx, op, "INSERT OR IGNORE INTO agent_remains (user) VALUES (?)", user)
	return err
}

// adopt saves an agent whose room is there already.
func (r registry) adopt(ctx context.Context, op string, a Agent) error {
	return r.db.Write(ctx, op, func(tx *sql.Tx) error {
		if err := insert(ctx, tx, a); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM agent_remains WHERE user = ?", a.User)
		return err
	})
}

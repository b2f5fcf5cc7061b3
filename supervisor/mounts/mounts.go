package mounts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/store"
)

const (
	opUnmount = "unmount"
	// sweepEvery is how late a mount may end when this computer has slept.
	sweepEvery = 30 * time.Second
	// endLimit bounds the work for a mount that ends by itself.
	endLimit = time.Minute
)

// The kinds of events.
const (
	MountedEvent  events.Kind = "mount.made"
	EndedEvent    events.Kind = "mount.ended"
	AcceptedEvent events.Kind = "review.accepted"
	RejectedEvent events.Kind = "review.rejected"
	SubmitEvent   events.Kind = "review.submitted"
)

// Options configure Mounts.
type Options struct {
	Rules
	DB      *store.DB
	Agents  *agents.Agents
	Prompts *prompts.Broker
	History *history.History
	Record  events.Recorder
	Log     *slog.Logger
	// Guest, if not nil, replaces how a guest is asked for mounts.
	Guest func(machine.Guest) (Guest, bool)
}

// Mounts are the mounts of a home's agents. Its methods may be called by many goroutines at once; their errors
// are faults. An agent is named by its name or id.
type Mounts struct {
	Options
	rows rows

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	turns queue.Queues[key] // to end a mount, or to work on its changes

	mu      sync.Mutex // held for moments only
	list    map[key]*entry
	changed notify.Notifier
}

// Open reads the mounts that were kept, and finishes what a killed daemon had begun to accept. Close comes
// before that of the agents.
func Open(ctx context.Context, o Options) (*Mounts, error) {
	m := &Mounts{Options: o, rows: rows{o.DB}, list: map[key]*entry{}}
	m.History = m.History.With(history.Options{})
	if m.Guest == nil {
		m.Guest = guestOf
	}
	m.Person, m.Home = resolved(m.Person), config.Home(resolved(string(m.Home)))
	list, err := m.rows.all(ctx)
	if err != nil {
		return nil, err
	}
	for _, mount := range list {
		e := &entry{Mount: mount, of: m}
		if err := e.resume(ctx); err != nil {
			m.Log.Warn("changes to a mounted folder may be accepted in part", "folder", mount.Folder, "error", err)
		}
		if mount.Keep && !mount.expired(time.Now()) {
			m.list[e.key()] = e
		} else if err := m.rows.remove(ctx, e.key()); err != nil {
			return nil, err
		}
	}
	m.life, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.work.Go(m.sweep)
	return m, nil
}

// Close ends all mounts. Those with Keep are there again after Open.
func (m *Mounts) Close() {
	m.mu.Lock()
	m.end() // no more work begins
	m.mu.Unlock()
	for _, e := range m.entries() {
		e.close()
		if !e.Keep {
			_ = m.rows.remove(context.Background(), e.key()) // or Open does
		}
	}
	m.work.Wait()
}

// Mount mounts a folder in the room of an agent: at once if its guest runs.
func (m *Mounts) Mount(ctx context.Context, ref string, n New, by machine.Cause) (Now, error) {
	agent, err := m.Agents.Get(ref)
	if err != nil {
		return Now{}, err
	}
	root, folder, err := m.Rules.Open(n.Folder, n.All)
	if err != nil {
		return Now{}, err
	}
	mount, err := n.mount(agent.ID, agent.Home(), folder)
	if err != nil {
		_ = root.Close()
		return Now{}, err
	}
	e := &entry{Mount: mount, of: m, root: root}
	if err := m.add(e); err != nil {
		_ = root.Close()
		return Now{}, err
	}
	if err = m.rows.add(ctx, mount); err == nil {
		err = m.enter(ctx, e)
	}
	if err != nil {
		m.drop(context.WithoutCancel(ctx), e)
		return Now{}, err
	}
	m.note(MountedEvent, by, e, map[string]string{"at": mount.At, "mode": string(mount.Mode)})
	m.changed.Notify()
	return e.now(), nil
}

// add adds a mount, unless it clashes with another of its agent.
func (m *Mounts) add(e *entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := 0
	for _, other := range m.list {
		if other.Agent != e.Agent {
			continue
		}
		if err := e.clash(other.Mount); err != nil {
			return err
		}
		others++
	}
	if others >= maxPerAgent {
		return fault.Newf(fault.Rejected, opMount, e.Folder, "the agent has %d mounts", others).Advise("Unmount one: osaurus-sandbox mount list")
	}
	m.list[e.key()] = e
	return nil
}

// enter mounts in the guest that runs, if there is one.
func (m *Mounts) enter(ctx context.Context, e *entry) error {
	lease, agent, err := m.Agents.RunningRoom(string(e.Agent)).Enter(ctx)
	if err != nil {
		if fault.KindOf(err) == fault.Unavailable && m.Agents.Has(e.Agent) {
			return nil // it is mounted when the room is made
		}
		return err
	}
	defer lease.Release()
	return e.attach(ctx, lease, agent)
}

// Attach mounts an agent's folders in its room, which was just made. It is for agents.Options.
func (m *Mounts) Attach(ctx context.Context, lease *machine.Lease, agent agents.Agent) {
	for _, e := range m.entries() {
		if e.Agent != agent.ID {
			continue
		}
		if err := e.attach(ctx, lease, agent); err != nil {
			m.Log.Warn("a folder is not mounted", "agent", agent.Name, "folder", e.Folder, "error", err)
		}
	}
}

// Unmount ends a mount. It fails with Rejected if programs use it or if there are changes to review; force
// discards both. Kept reports that there may be changes, which the next mount of the folder shows again.
func (m *Mounts) Unmount(ctx context.Context, ref, name string, force bool, by machine.Cause) (kept bool, err error) {
	e, err := m.find(ref, name)
	if err != nil {
		return false, err
	}
	end, err := m.turn(ctx, opUnmount, e)
	if err != nil {
		return false, err
	}
	defer end()
	if !e.attached() {
		return e.reviewed(), m.finish(ctx, e, by)
	}
	if e.reviewed() && !force {
		if err := m.unreviewed(ctx, e); err != nil {
			return false, err
		}
	}
	if err := e.detach(ctx, force); err != nil {
		return false, err
	}
	return false, cmp.Or(m.finish(ctx, e, by), m.forget(ctx, e))
}

// finish removes a mount that is not in a room.
func (m *Mounts) finish(ctx context.Context, e *entry, by machine.Cause) error {
	err := m.rows.remove(ctx, e.key())
	if err == nil {
		m.drop(ctx, e)
		m.note(EndedEvent, by, e, nil)
		m.changed.Notify()
	}
	return err
}

// drop removes an entry that may be in no room and in no row.
func (m *Mounts) drop(ctx context.Context, e *entry) {
	m.mu.Lock()
	if m.list[e.key()] == e {
		delete(m.list, e.key())
	}
	m.mu.Unlock()
	e.close()
	_ = m.rows.remove(ctx, e.key())
}

// sweep ends mounts whose time is over, and those of deleted agents.
func (m *Mounts) sweep() {
	for {
		agentsChanged, changed := m.Agents.Changed(), m.changed.Next()
		next := sweepEvery
		for _, e := range m.entries() {
			switch now := time.Now(); {
			case !m.Agents.Has(e.Agent):
				m.expire(e, "the agent was deleted")
				_ = e.newReview(nil).Forget()
			case e.expired(now):
				m.expire(e, "its time is over")
			case !e.Until.IsZero():
				next = min(next, max(e.Until.Sub(now), time.Millisecond))
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-agentsChanged:
		case <-changed:
		case <-timer.C:
		case <-m.life.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// expire ends a mount whatever uses it. Changes stay for the next mount of the folder.
func (m *Mounts) expire(e *entry, by machine.Cause) {
	ctx, cancel := context.WithTimeout(m.life, endLimit)
	defer cancel()
	end, err := m.turn(ctx, opUnmount, e)
	if err != nil {
		return // the next sweep tries again
	}
	defer end()
	if err := cmp.Or(e.detach(ctx, true), m.finish(ctx, e, by)); err != nil {
		m.Log.Warn("a mount has not ended", "folder", e.Folder, "error", err)
	}
}

// List returns the mounts of an agent, or of all, by agent and name.
func (m *Mounts) List(ref string) (list []Now, err error) {
	var agent agents.Agent
	if ref != "" {
		if agent, err = m.Agents.Get(ref); err != nil {
			return nil, err
		}
	}
	for _, e := range m.entries() {
		if ref == "" || e.Agent == agent.ID {
			list = append(list, e.now())
		}
	}
	slices.SortStableFunc(list, func(a, b Now) int { return cmp.Compare(m.NameOf(a.Mount), m.NameOf(b.Mount)) })
	return list, nil
}

// entries returns all mounts, by agent and name.
func (m *Mounts) entries() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.list), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Name, b.Name))
	})
}

// find finds a mount by its name or its folder's path.
func (m *Mounts) find(ref, name string) (*entry, error) {
	agent, err := m.Agents.Get(ref)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.list {
		if e.Agent == agent.ID && (string(e.Name) == name || e.Folder == name) {
			return e, nil
		}
	}
	return nil, fault.Newf(fault.NotFound, "find mount", name, "%s has no such mount", agent.Name).Advise("List them: osaurus-sandbox mount list " + string(agent.Name))
}

// turn waits for the turn to work on a mount, which must not have ended then.
func (m *Mounts) turn(ctx context.Context, op string, e *entry) (end func(), err error) {
	end, err = m.turns.Take(ctx, e.key(), nil)
	if err != nil {
		return nil, fault.Newf(fault.KindOf(err), op, string(e.Name), "something else is still being done with it: %w", err)
	}
	m.mu.Lock()
	there := m.list[e.key()] == e
	m.mu.Unlock()
	if !there {
		end()
		return nil, fault.New(fault.NotFound, op, string(e.Name), errors.New("the mount has ended"))
	}
	return end, nil
}

// note records what happened to a mount.
func (m *Mounts) note(kind events.Kind, by machine.Cause, e *entry, more map[string]string) {
	fields := map[string]string{"id": string(e.Agent), "mount": string(e.Name), "folder": e.Folder}
	if agent, err := m.Agents.Get(string(e.Agent)); err == nil {
		fields["agent"] = string(agent.Name)
	}
	maps.Copy(fields, more)
	m.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: fields})
}

// NameOf returns the name of a mount's agent.
func (m *Mounts) NameOf(mount Mount) config.AgentName {
	agent, _ := m.Agents.Get(string(mount.Agent))
	return agent.Name
}

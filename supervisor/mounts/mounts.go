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
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/supervisor/store"
)

const (
	opUnmount = "unmount"
	// sweepEvery is how late a mount may end by itself.
	sweepEvery = 5 * time.Second
	// endLimit bounds the work for that.
	endLimit = time.Minute
	// closeLimit is how long Close waits for work on changes, such as an accept that is cancelled and goes back.
	closeLimit = 15 * time.Second
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

	life  context.Context // ends with Close
	stop  context.CancelFunc
	work  sync.WaitGroup
	turns queue.Queues[*entry] // to end a mount, or to work on its changes

	mu   sync.Mutex // held for moments only
	list []*entry
}

// Open reads the mounts that were kept, and finishes what a killed daemon had begun to accept. Close comes
// before that of the agents.
func Open(ctx context.Context, o Options) (*Mounts, error) {
	m := &Mounts{Options: o}
	m.History = m.History.With(history.Options{})
	if m.Guest == nil {
		m.Guest = guestOf
	}
	m.Person, m.Home = resolved(m.Person), config.Home(resolved(string(m.Home)))
	rows, err := m.rows(ctx)
	if err != nil {
		return nil, err
	}
	for _, mount := range rows {
		e := &entry{Mount: mount, of: m}
		failed := e.resume(ctx)
		if failed != nil {
			m.Log.Warn("changes to a mounted folder may be accepted in part", "folder", mount.Folder, "error", failed)
		}
		if mount.Keep && !mount.expired() {
			m.list = append(m.list, e)
			continue
		}
		if e.close(); failed != nil {
			continue // its row stays, so that the next daemon tries again
		}
		if err := m.remove(ctx, e); err != nil {
			return nil, err
		}
	}
	m.life, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.work.Go(func() {
		for tick := time.NewTicker(sweepEvery); m.life.Err() == nil; {
			select {
			case <-tick.C:
				m.sweep()
			case <-m.life.Done():
				tick.Stop()
			}
		}
	})
	return m, nil
}

// Close ends all mounts. Open mounts those with Keep again.
func (m *Mounts) Close() {
	m.mu.Lock()
	m.stop() // no more work begins
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	for _, e := range m.entries() {
		if end, err := m.turns.Take(ctx, e, nil); err == nil {
			defer end()
		}
		e.close()
	}
	m.work.Wait()
}

// Mount mounts a folder in the room of an agent: at once if its guest runs. Empty fields of want have defaults.
func (m *Mounts) Mount(ctx context.Context, ref string, want Mount, by machine.Cause) (Mount, error) {
	agent, err := m.Agents.Get(ref)
	if err != nil {
		return Mount{}, err
	}
	root, folder, err := m.Rules.Open(want.Folder, want.All)
	if err != nil {
		return Mount{}, err
	}
	e := &entry{of: m, root: root}
	if e.Mount, err = want.complete(agent.ID, agent.Home(), folder); err == nil {
		err = m.add(e)
	}
	if err != nil {
		_ = root.Close()
		return Mount{}, err
	}
	if err = m.insert(ctx, e.Mount); err == nil {
		err = m.enter(ctx, e)
	}
	if err != nil {
		_ = m.drop(context.WithoutCancel(ctx), e)
		return Mount{}, err
	}
	m.note(MountedEvent, by, e, map[string]string{"at": e.At, "mode": string(e.Mode)})
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
	m.list = append(m.list, e)
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

// Lost reports whether a folder that was mounted in an agent's room is not there any more, such as after the end of
// the room. It is for agents.Options.
func (m *Mounts) Lost(agent config.AgentID) bool {
	return slices.ContainsFunc(m.entries(), func(e *entry) bool { return e.Agent == agent && e.lost() })
}

// Unmount ends a mount. It fails with Rejected if programs use it or if there are changes to review; force
// discards both. If no guest runs, there may be changes, which the next mount of the folder shows again.
func (m *Mounts) Unmount(ctx context.Context, ref, name string, force bool, by machine.Cause) error {
	e, err := m.find(ref, name)
	if err != nil {
		return err
	}
	end, err := m.turn(ctx, opUnmount, e)
	if err != nil {
		return err
	}
	defer end()
	if err := e.end(ctx, force); err != nil {
		return err
	}
	m.note(EndedEvent, by, e, nil)
	return m.drop(ctx, e)
}

// drop ends a mount, whatever uses it. The caller has the turn, or nobody knows the mount yet.
func (m *Mounts) drop(ctx context.Context, e *entry) error {
	_ = e.detach(ctx, true)
	m.mu.Lock()
	m.list = slices.DeleteFunc(m.list, func(other *entry) bool { return other == e })
	m.mu.Unlock()
	e.close()
	return m.remove(ctx, e)
}

// sweep ends mounts whose time is over, and those of deleted agents, whatever uses them. Changes stay for the next
// mount of the folder.
func (m *Mounts) sweep() {
	for _, e := range m.entries() {
		var why machine.Cause
		if !m.Agents.Has(e.Agent) {
			why = "the agent was deleted"
			_ = e.newReview(nil).Forget()
		} else if e.expired() {
			why = "its time is over"
		} else {
			continue
		}
		ctx, cancel := context.WithTimeout(m.life, endLimit)
		if end, err := m.turn(ctx, opUnmount, e); err == nil { // else the next sweep tries again
			if err := m.drop(ctx, e); err != nil {
				m.Log.Warn("a mount has not ended", "folder", e.Folder, "error", err)
			}
			m.note(EndedEvent, why, e, nil)
			end()
		}
		cancel()
	}
}

// List returns the mounts of an agent, or of all, by agent and name.
func (m *Mounts) List(ref string) (list []Mount, err error) {
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
	slices.SortFunc(list, func(a, b Mount) int {
		return cmp.Or(cmp.Compare(m.NameOf(a), m.NameOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// entries returns all mounts.
func (m *Mounts) entries() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// find finds a mount by its name or its folder's path.
func (m *Mounts) find(ref, name string) (*entry, error) {
	agent, err := m.Agents.Get(ref)
	if err != nil {
		return nil, err
	}
	for _, e := range m.entries() {
		if e.Agent == agent.ID && (string(e.Name) == name || e.Folder == name) {
			return e, nil
		}
	}
	return nil, fault.Newf(fault.NotFound, "find mount", name, "%s has no such mount", agent.Name).Advise("List them: osaurus-sandbox mount list " + string(agent.Name))
}

// turn waits for the turn to work on a mount, which must not have ended then.
func (m *Mounts) turn(ctx context.Context, op string, e *entry) (end func(), err error) {
	end, err = m.turns.Take(ctx, e, nil)
	if err != nil {
		return nil, fault.Newf(fault.KindOf(err), op, string(e.Name), "something else is still being done with it: %w", err)
	}
	if !slices.Contains(m.entries(), e) {
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

// insert writes the row of a mount. The rows of a deleted agent are deleted with it.
func (m *Mounts) insert(ctx context.Context, n Mount) error {
	_, err := m.DB.Exec(ctx, opMount, "INSERT OR REPLACE INTO mounts (agent, name, folder, at, mode, made, until, keep, ask, everything) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		n.Agent, n.Name, n.Folder, n.At, n.Mode, store.Nanos(n.Made), store.Nanos(n.Until), n.Keep, n.Ask, n.All)
	return err
}

func (m *Mounts) remove(ctx context.Context, e *entry) error {
	_, err := m.DB.Exec(ctx, opUnmount, "DELETE FROM mounts WHERE agent = ? AND name = ?", e.Agent, e.Name)
	return err
}

func (m *Mounts) rows(ctx context.Context) ([]Mount, error) {
	return store.Select(ctx, m.DB, "read mounts", func(row store.Row) (n Mount, err error) {
		err = row.Scan(&n.Agent, &n.Name, &n.Folder, &n.At, &n.Mode, store.Time(&n.Made), store.Time(&n.Until), &n.Keep, &n.Ask, &n.All)
		return n, err
	}, "SELECT agent, name, folder, at, mode, made, until, keep, ask, everything FROM mounts ORDER BY agent, name")
}

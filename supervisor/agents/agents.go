// Package agents manages the agents of a home: names, Linux users, settings,
// home folders and rooms.
package agents

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm"
)

const (
	// maxAgents bounds the number of agents. A guest has room for some fifty
	// at once; all of them fit into one message of the API.
	maxAgents = 500
)

// Diagnostic is the agent that diagnostics use. No other agent has the name.
const Diagnostic config.AgentName = "diag"

// The kinds of events.
const (
	Created events.Kind = "agent.created"
	Renamed events.Kind = "agent.renamed"
	Changed events.Kind = "agent.setting"
	Reset   events.Kind = "agent.reset"
	Deleted events.Kind = "agent.deleted"
)

// AnotherBase is the reason for the automatic reset of an agent whose layer
// belongs to another base image.
const AnotherBase machine.Cause = "another base"

// Options configure Agents.
type Options struct {
	Home config.Home
	DB   *store.DB
	// Machines are where the agents' rooms are.
	Machines *machine.Fleet
	// Folders says which home folder is whose; the machine has it too.
	Folders *vm.Subtrees
	// Tokens are the valid tokens of agents.
	Tokens  *bridge.Tokens
	Secrets Secrets
	// Trust returns what makes rooms trust the network's gateway, if they have to. It must be
	// fast.
	Trust func() *engine.Trust
	// PrepareTrust is called before an agent's room is used, so that Trust has what the room needs.
	// It may wait for a moment.
	PrepareTrust func(context.Context, Agent)
	// Made is called when a room was made or may have been, before anything runs in it.
	Made func(context.Context, *machine.Lease, Agent)
	// Lost reports whether something that Made added to a room has ended, perhaps with the room. Made is then
	// called again. It must be fast.
	Lost   func(config.AgentID) bool
	Record events.Recorder
	Log    *slog.Logger
}

// Agents are the agents of a home. The methods may be called by many
// goroutines at once; their errors are faults. An agent is named by its name
// or its id.
type Agents struct {
	Options
	rows registry
	root *os.Root // the workspace

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	turns    queue.Queues[config.LinuxUser] // to change that user's room, or the set of agents
	writing  sync.Mutex                     // of the map of users
	sweeping sync.Mutex                     // of folders that were set aside

	mu      sync.Mutex // held for moments only
	byName  map[config.AgentName]*member
	remains map[config.LinuxUser]bool // users of deleted agents that may have something in the guest

	changed notify.Notifier // notified of every change of an agent
}

// member is an agent and its room. Agents.mu guards it.
type member struct {
	Agent
	gone bool
	made made
	pass pass
}

// made is a room as it was last made; its guest may have ended since. After a
// failed request the room is unknown.
type made struct {
	in   machine.Guest
	room engine.RoomConfig
}

// Open reads the agents of a home and keeps the guest and the map of users up
// to date. Close comes before that of the machines and the database.
func Open(ctx context.Context, o Options) (*Agents, error) {
	a := &Agents{
		Options: o, rows: registry{o.DB},
		byName: map[config.AgentName]*member{}, remains: map[config.LinuxUser]bool{},
	}
	if err := a.openWorkspace(); err != nil {
		return nil, err
	}
	list, remains, err := a.rows.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, agent := range list {
		if agent.Unfinished {
			if err := errors.Join(a.setAside(agent), a.rows.remove(ctx, agent)); err != nil {
				return nil, err
			}
			remains = append(remains, agent.User)
			continue
		}
		a.byName[agent.Name] = &member{Agent: agent}
		if err := a.show(agent); err != nil {
			return nil, err
		}
	}
	for _, user := range remains {
		a.remains[user] = true
	}
	a.keepMap()
	if err := errors.Join(a.sweepFolders(), os.RemoveAll(o.Home.Transfers())); err != nil {
		a.Log.Warn("folders of deleted agents are left", "error", err)
	}
	a.life, a.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, vm := range a.Machines.All() {
		a.work.Go(func() { a.tidy(vm) })
	}
	return a, nil
}

// Close ends background work.
func (a *Agents) Close() {
	a.end()
	a.work.Wait()
	a.Tokens.RevokeAll()
	_ = a.root.Close()
}

// List returns all agents, by name.
func (a *Agents) List() []Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Agent, 0, len(a.byName))
	for _, m := range a.byName {
		list = append(list, m.Agent)
	}
	slices.SortFunc(list, func(x, y Agent) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Changed returns a channel that is closed when an agent changes.
func (a *Agents) Changed() <-chan struct{} { return a.changed.Next() }

// Get finds an agent.
func (a *Agents) Get(ref string) (Agent, error) {
	m, err := a.find(ref)
	if err != nil {
		return Agent{}, err
	}
	return a.agentOf(m), nil
}

// Has reports whether an agent with the id exists.
func (a *Agents) Has(id config.AgentID) bool {
	_, err := a.find(string(id))
	return err == nil
}

// machine returns the machine that an agent lives in.
func (a *Agents) machine(m *member) *machine.Machine { return a.Machines.For(m.ID) }

func (a *Agents) find(ref string) (*member, error) {
	id, notID := config.ParseAgentID(ref)
	name, err := config.NameAgent(ref)
	if err != nil && notID != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.byName[name]; m != nil && err == nil {
		return m, nil
	}
	for m := range maps.Values(a.byName) {
		if m.ID == id && notID == nil {
			return m, nil
		}
	}
	return nil, notFound(ref)
}

func notFound(ref string) error {
	return fault.Newf(fault.NotFound, "find agent", ref, "no such agent").Advise("List the agents: osaurus-sandbox agent list; create one: osaurus-sandbox agent create")
}

// everybody is the key for changes to the set of agents. No user has that
// name.
const everybody config.LinuxUser = ""

// turn waits for the turn to change a user's room, or the set of agents. The
// caller must call end. The key is the user, who outlives the agent: a new
// agent of the same name must not meet what is still being removed.
func (a *Agents) turn(ctx context.Context, user config.LinuxUser, op, subject string) (end func(), err error) {
	end, err = a.turns.Take(ctx, user, nil)
	if err != nil {
		return nil, fault.Newf(fault.KindOf(err), op, subject, "another change is still in progress: %w", err)
	}
	return end, nil
}

// note records what happened to an agent.
func (a *Agents) note(kind events.Kind, by machine.Cause, agent Agent, more map[string]string) {
	fields := map[string]string{"agent": string(agent.Name), "id": string(agent.ID), "user": string(agent.User)}
	maps.Copy(fields, more)
	a.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: fields})
	a.changed.Notify()
}

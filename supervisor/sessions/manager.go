// Package sessions runs persistent shells, with transcripts that outlive the guest, and background jobs.
package sessions

import (
	"context"
	"log/slog"
	"maps"
	"sync"

	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
)

// The kinds of events. Jobs of a daemon that was killed get no JobEnded: see machine.OwnerGone.
const (
	SessionStarted events.Kind = "session.started"
	SessionClosed  events.Kind = "session.closed"
	JobStarted     events.Kind = "job.started"
	JobEnded       events.Kind = "job.ended"
)

// Options configure a Manager.
type Options struct {
	DB     *store.DB
	Agents *agents.Agents
	Record events.Recorder
	Log    *slog.Logger
}

// Manager runs the shells and jobs of a home's agents. Its methods may be called from any
// goroutine; their errors are *fault.Error.
type Manager struct {
	Options
	kept     transcripts
	recorder *recorder

	life    context.Context // ends with Close
	end     context.CancelFunc
	closing sync.Mutex // held for moments, so that no work begins after end
	work    sync.WaitGroup
}

// New returns a Manager. Close it before the agents, the machines and the database.
func New(o Options) *Manager {
	m := &Manager{Options: o, kept: transcripts{o.DB}}
	m.life, m.end = context.WithCancel(context.Background())
	m.recorder = newRecorder(m)
	return m
}

// Close saves the transcripts and ends background work. Shells and jobs end with the guest.
func (m *Manager) Close() {
	m.closing.Lock()
	m.end()
	m.closing.Unlock()
	m.work.Wait()
	m.recorder.close()
}

// beside runs background work that ends with life. Close does not wait for work that begins
// after it.
func (m *Manager) beside(do func()) {
	m.closing.Lock()
	defer m.closing.Unlock()
	if m.life.Err() != nil {
		go do()
		return
	}
	m.work.Go(do)
}

// note records what happened to a shell or job.
func (m *Manager) note(kind events.Kind, by machine.Cause, agent agents.Agent, more map[string]string) {
	fields := map[string]string{"agent": string(agent.Name), "id": string(agent.ID)}
	maps.Copy(fields, more)
	m.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: fields})
}

// Each calls do for the room of an agent, or of all agents by name if ref is empty.
func (m *Manager) Each(ref string, do func(agents.Agent, Room) error) error {
	which := m.Agents.List()
	if ref != "" {
		agent, err := m.Agents.Get(ref)
		if err != nil {
			return err
		}
		which = []agents.Agent{agent}
	}
	for _, agent := range which {
		if err := do(agent, m.Room(string(agent.ID), "")); err != nil && m.Agents.Has(agent.ID) {
			return err
		}
	}
	return nil
}

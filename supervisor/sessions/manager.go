// Package sessions runs persistent shells, with transcripts that outlive the guest, and background jobs.
package sessions

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
)

// The kinds of events.
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

// Session is a session of an agent.
type Session struct {
	Agent agents.Agent
	engine.Session
}

// Job is a job of an agent.
type Job struct {
	Agent agents.Agent
	engine.Job
}

// Sessions lists the sessions of an agent, or of all agents if ref is empty: see Room.Sessions.
func (m *Manager) Sessions(ctx context.Context, ref string) ([]Session, error) {
	return list(m, ref, func(r Room, agent agents.Agent) (found []Session, err error) {
		sessions, err := r.Sessions(ctx)
		for _, s := range sessions {
			found = append(found, Session{agent, s})
		}
		return found, err
	})
}

// Jobs lists the jobs of an agent, or of all agents if ref is empty, the newest first.
func (m *Manager) Jobs(ctx context.Context, ref string) ([]Job, error) {
	return list(m, ref, func(r Room, agent agents.Agent) (found []Job, err error) {
		jobs, err := r.Jobs(ctx)
		for _, j := range jobs {
			found = append(found, Job{agent, j})
		}
		return found, err
	})
}

// list collects what the rooms of one agent, or of all agents by name, hold.
func list[T any](m *Manager, ref string, of func(Room, agents.Agent) ([]T, error)) (all []T, err error) {
	which := m.Agents.List()
	if ref != "" {
		agent, err := m.Agents.Get(ref)
		if err != nil {
			return nil, err
		}
		which = []agents.Agent{agent}
	}
	for _, agent := range which {
		found, err := of(m.Room(string(agent.ID), ""), agent)
		if err != nil && m.Agents.Has(agent.ID) {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Settle records the ends of jobs that an earlier daemon missed, for example because it was
// killed. past are the recorded events.
func (m *Manager) Settle(past iter.Seq2[events.Event, error]) error {
	var begun []events.Event
	for e, err := range past {
		if err != nil {
			return err
		}
		switch e.Kind {
		case JobStarted:
			begun = append(begun, e)
		case JobEnded:
			begun = slices.DeleteFunc(begun, func(b events.Event) bool { return b.Fields["job"] == e.Fields["job"] })
		}
	}
	for _, e := range begun {
		m.Record.Note(events.Event{Kind: JobEnded, Cause: "its daemon ended before it did", Fields: e.Fields})
	}
	return nil
}

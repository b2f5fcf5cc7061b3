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

// The kinds of events.
const (
	SessionStarted events.Kind = "session.started"
	SessionClosed  events.Kind = "session.closed"
	JobStarted     events.Kind = "job.started"
	JobEnded       events.Kind = "job.ended"
)

// Options configure Terminals.
type Options struct {
	DB       *store.DB
	Machines *machine.Fleet
	Agents   *agents.Agents
	Record   events.Recorder
	Log      *slog.Logger
}

// Terminals are the shells and jobs of a home's agents. The methods may be
// called by many goroutines at once; their errors are faults. An agent is
// named by its name or its id.
//
// Run, Attach and StartJob start the guest if necessary. All other calls start
// none: without a guest there are no shells and no jobs, only transcripts.
// Attached people and running jobs keep the guest from being stopped as idle.
type Terminals struct {
	Options
	kept     transcripts
	recorder *recorder

	life    context.Context // ends with Close
	end     context.CancelFunc
	closing sync.Mutex // held for moments, so that no work begins after end
	work    sync.WaitGroup
}

// New returns the terminals of agents. Close comes before that of the agents,
// the machines and the database.
func New(o Options) *Terminals {
	t := &Terminals{Options: o, kept: transcripts{o.DB}}
	t.life, t.end = context.WithCancel(context.Background())
	t.recorder = newRecorder(t)
	return t
}

// Close saves the transcripts and ends background work. Shells and jobs end
// with the guest.
func (t *Terminals) Close() {
	t.closing.Lock()
	t.end()
	t.closing.Unlock()
	t.work.Wait()
	t.recorder.close()
}

// beside runs background work that ends with life. Close does not wait for
// work that begins after it.
func (t *Terminals) beside(do func()) {
	t.closing.Lock()
	defer t.closing.Unlock()
	if t.life.Err() != nil {
		go do()
		return
	}
	t.work.Go(do)
}

// note records what happened to a shell or job.
func (t *Terminals) note(kind events.Kind, by machine.Cause, agent agents.Agent, more map[string]string) {
	fields := map[string]string{"agent": string(agent.Name), "id": string(agent.ID)}
	maps.Copy(fields, more)
	t.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: fields})
}

// those returns one agent, or all for an empty name.
func (t *Terminals) those(ref string) ([]agents.Agent, error) {
	if ref == "" {
		return t.Agents.List(), nil
	}
	agent, err := t.Agents.Get(ref)
	return []agents.Agent{agent}, err
}

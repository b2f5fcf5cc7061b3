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

// Options are what terminals are made of.
type Options struct {
	DB       *store.DB
	Machines *machine.Fleet
	Agents   *agents.Agents
	Record   events.Recorder
	Log      *slog.Logger
}

// Terminals are the shells and jobs of a home's agents. The methods may be
// called from any goroutine; their errors are *fault.Error. An agent is asked
// for by its name or its id.
//
// What needs a guest to begin with (Run, Attach, StartJob) starts it. All else
// starts none: without a guest there are no shells and no jobs, only
// transcripts. Who is attached and a job that runs use the guest, so it is not
// stopped as idle; who looks at them does not.
type Terminals struct {
	Options
	kept   transcripts
	scribe *scribe

	life    context.Context // ends with Close
	end     context.CancelFunc
	closing sync.Mutex // held for moments, so that no work begins after end
	work    sync.WaitGroup
}

// New returns the terminals of agents. Close comes before the agents', the
// sandbox's and the database's.
func New(o Options) *Terminals {
	t := &Terminals{Options: o, kept: transcripts{o.DB}}
	t.life, t.end = context.WithCancel(context.Background())
	t.scribe = newScribe(t)
	return t
}

// Close keeps what is not kept yet of the transcripts, and ends what goes on by
// itself. Shells and jobs end with the guest.
func (t *Terminals) Close() {
	t.closing.Lock()
	t.end()
	t.closing.Unlock()
	t.work.Wait()
	t.scribe.close()
}

// beside has something go on that ends with life. What begins after that is not
// waited for.
func (t *Terminals) beside(do func()) {
	t.closing.Lock()
	defer t.closing.Unlock()
	if t.life.Err() != nil {
		go do()
		return
	}
	t.work.Go(do)
}

// note takes note of what became of an agent's shell or job.
func (t *Terminals) note(kind events.Kind, by machine.Cause, agent agents.Agent, more map[string]string) {
	fields := map[string]string{"agent": string(agent.Name), "id": string(agent.ID)}
	maps.Copy(fields, more)
	t.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: fields})
}

// those are the agents that are meant: one, or all for an empty name.
func (t *Terminals) those(ref string) ([]agents.Agent, error) {
	if ref == "" {
		return t.Agents.List(), nil
	}
	agent, err := t.Agents.Get(ref)
	return []agents.Agent{agent}, err
}

package machine_test

import (
	"sync"
	"testing"

	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// record keeps events and fails its test if a state does not follow the one before.
type record struct {
	t *testing.T

	mu     sync.Mutex
	events []events.Event
	state  string
}

func (r *record) Note(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == machine.StateChanged {
		if e.Fields["from"] != r.state {
			r.t.Errorf("an event says that %s became %s, but the state was %s", e.Fields["from"], e.Fields["to"], r.state)
		}
		r.state = e.Fields["to"]
	}
	if e.Time.IsZero() || e.Cause == "" {
		r.t.Errorf("event without time or cause: %+v", e)
	}
	r.events = append(r.events, e)
}

// count returns the number of events of a kind.
func (r *record) count(kind events.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

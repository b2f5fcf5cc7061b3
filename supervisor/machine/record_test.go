package machine_test

import (
	"sync"
	"testing"

	"osaurus-sandbox/supervisor/machine"
)

// record keeps events and fails its test if a state does not follow the one before.
type record struct {
	t *testing.T

	mu     sync.Mutex
	events []machine.Event
	state  machine.State
}

func (r *record) Record(e machine.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == machine.StateChanged {
		if e.From != r.state {
			r.t.Errorf("an event says that %s became %s, but the state was %s", e.From, e.To, r.state)
		}
		r.state = e.To
	}
	if e.Time.IsZero() || e.Cause == "" {
		r.t.Errorf("event without time or cause: %+v", e)
	}
	r.events = append(r.events, e)
}

// count returns the number of events of a kind.
func (r *record) count(kind machine.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

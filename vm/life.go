package vm

import (
	"context"
	"slices"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Life is the part of a Machine that is about its state: which it is, who watches it,
// and how it ended. It is the same for every driver, as a part of its Power.
type Life struct {
	name string
	mu   sync.Mutex
	now  *moment
	over bool
	err  error
	done chan struct{}
}

// moment is a state and, once past is closed, what came after it. The chain
// lets each watcher walk at its own pace; what all have passed is garbage.
type moment struct {
	state State
	past  chan struct{}
	next  *moment // nil for the last one
}

// NewLife returns the life of a machine that was not started yet; its errors
// name it.
func NewLife(name string) *Life {
	return &Life{name: name, now: &moment{state: Stopped, past: make(chan struct{})}, done: make(chan struct{})}
}

// Move changes the state to one and reports true if the present state is one
// of from; otherwise, and once the life is over, nothing happens.
func (l *Life) Move(to State, from ...State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !slices.Contains(from, l.now.state) {
		return false
	}
	l.step(to)
	return true
}

// End ends the life: in Stopped if err is nil, otherwise in Failed. Only the
// first call counts. The devices must be gone before it.
func (l *Life) End(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	final := Stopped
	if err != nil {
		final = Failed
	}
	if l.now.state != final {
		l.step(final)
	}
	l.over, l.err = true, err
	close(l.now.past)
	close(l.done)
}

func (l *Life) step(to State) {
	last := l.now
	l.now = &moment{state: to, past: make(chan struct{})}
	last.next = l.now
	close(last.past)
}

// State implements Machine.
func (l *Life) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.state
}

// Done implements Machine.
func (l *Life) Done() <-chan struct{} { return l.done }

// Ended reports whether Done is closed.
func (l *Life) Ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Misfit is the error of a method that does not fit the state.
func (l *Life) Misfit(op string) error {
	e := fault.Newf(fault.Rejected, op, l.name, "it is %s", l.State())
	if l.Ended() {
		return e.Advise("A machine runs once: make a new one.")
	}
	return e
}

// Err implements Machine.
func (l *Life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Watch implements Machine.
func (l *Life) Watch(ctx context.Context) <-chan State {
	states := make(chan State)
	l.mu.Lock()
	at := l.now
	l.mu.Unlock()
	go func() {
		defer close(states)
		for {
			select {
			case <-at.past:
			case <-ctx.Done():
				return
			}
			if at.next == nil {
				return
			}
			at = at.next
			select {
			case states <- at.state:
			case <-ctx.Done():
				return
			}
		}
	}()
	return states
}

package vm

import (
	"context"
	"slices"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Life implements the state of a Machine: State, Watch, Done and Err. Drivers get one
// from NewPower.
type Life struct {
	name string
	mu   sync.Mutex
	now  *entry
	over bool
	err  error
	done chan struct{}
}

// entry is a link in the chain of states. Each watcher follows the chain at its own
// pace, so a slow one loses nothing.
type entry struct {
	state State
	left  chan struct{} // closed when next is set or the life is over
	next  *entry        // nil for the last one
}

// NewLife returns the life of a machine that has not started. The name is for errors.
func NewLife(name string) *Life {
	return &Life{name: name, now: &entry{state: Stopped, left: make(chan struct{})}, done: make(chan struct{})}
}

// Move changes the state to the given one if the current state is in from and the
// life is not over. It reports whether it did.
func (l *Life) Move(to State, from ...State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !slices.Contains(from, l.now.state) {
		return false
	}
	l.step(to)
	return true
}

// End moves to Stopped if err is nil, otherwise to Failed, and closes Done. Only the
// first call counts. Release the machine's devices first.
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
	close(l.now.left)
	close(l.done)
}

func (l *Life) step(to State) {
	last := l.now
	l.now = &entry{state: to, left: make(chan struct{})}
	last.next = l.now
	close(last.left)
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

// StateError returns the error for an operation that the current state does not allow.
func (l *Life) StateError(op string) error {
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
			case <-at.left:
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

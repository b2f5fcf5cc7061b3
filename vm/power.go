package vm

import (
	"context"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Power implements the start and the end of a Machine: it starts once, and ends by
// Kill, by Close, by a failed start or by itself. Drivers embed one.
type Power struct {
	*Life
	backend     Backend
	stuckAdvice string

	mu      sync.Mutex
	on      bool  // started
	asked   bool  // Kill or Close was called
	failure error // why AbortStart was called
	stuck   error // why Abandon was called; nil again after End
}

// Backend is what Power needs of a driver's machine.
type Backend interface {
	// ForceOff starts to end the machine and reports whether it was still running.
	// The driver calls End when the machine is gone. ForceOff may be called again.
	ForceOff() bool
	// Release frees the resources of a machine that is not running.
	Release()
}

// NewPower returns the power of a machine that has not started. stuckAdvice is the
// advice if a killed machine does not end.
func NewPower(name string, backend Backend, stuckAdvice string) *Power {
	return &Power{Life: NewLife(name), backend: backend, stuckAdvice: stuckAdvice}
}

// Launch moves to Starting and calls start. After start, the driver must call End when
// the machine ends. If start fails, it must leave nothing running.
func (p *Power) Launch(op string, start func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Move(Starting, Stopped) {
		return p.StateError(op)
	}
	if err := start(); err != nil {
		err = fault.Wrap(op, p.name, err)
		p.backend.Release()
		p.Life.End(err)
		return err
	}
	p.on = true
	return nil
}

// AbortStart ends a machine that did not start, waits until it is gone and returns the
// error for Start.
func (p *Power) AbortStart(op string, why error) error {
	p.mu.Lock()
	p.failure = why // no effect if it has ended already
	p.backend.ForceOff()
	p.mu.Unlock()
	return p.FailedStart(op)
}

// FailedStart waits for the end of a machine that is ending during its start, and
// returns the error for Start.
func (p *Power) FailedStart(op string) error {
	<-p.Done()
	if err := p.Err(); err != nil {
		return err
	}
	return fault.Newf(fault.Rejected, op, p.name, "it was killed")
}

// EndError returns the error to pass to End: none if Kill or Close was called, that of
// AbortStart if there is one, otherwise how, which says how the machine ended.
func (p *Power) EndError(how error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.asked:
		return nil
	case p.failure != nil:
		return p.failure
	}
	return how
}

// PanicError returns the error for a kernel panic with this report.
func (p *Power) PanicError(report string) error {
	return fault.Newf(fault.Execution, "run machine", p.name, "the guest's kernel panicked:\n%s", report).
		Advise("Start it again; if it panics again, another pack or more memory may help.")
}

// Abandon ends the life of a machine that cannot be killed. Kill and Close return why
// until the driver calls End.
func (p *Power) Abandon(why error) {
	p.mu.Lock()
	p.stuck = why
	p.mu.Unlock()
	p.Life.End(why)
}

// End ends the life after the machine is gone. See Life.End.
func (p *Power) End(err error) {
	p.mu.Lock()
	p.stuck = nil
	p.mu.Unlock()
	p.Life.End(err)
}

// Kill implements Machine.
func (p *Power) Kill(ctx context.Context) error {
	p.mu.Lock()
	on := p.on
	if on && !p.Ended() && p.backend.ForceOff() {
		p.asked = true
	}
	p.mu.Unlock()
	if !on {
		return nil
	}
	select {
	case <-p.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stuck
	case <-ctx.Done():
		return fault.Wrap("kill machine", p.name, ctx.Err()).Advise(p.stuckAdvice)
	}
}

// Close implements Machine.
func (p *Power) Close() error {
	p.mu.Lock()
	if !p.on && !p.Ended() {
		p.backend.Release()
		p.Life.End(nil)
	}
	p.mu.Unlock()
	return p.Kill(context.Background())
}

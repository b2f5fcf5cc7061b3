package vm

import (
	"context"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// Power is the part of a Machine that is about its beginning and its end, and the
// same for every driver: it is switched on once, and ends because that was asked
// for, because its start was given up, or by itself. Drivers embed one.
type Power struct {
	*Life
	cable Cable
	stays string // what to do about a machine that is killed and not gone

	mu      sync.Mutex
	on      bool  // there is somebody who follows it to its end
	asked   bool  // the end was asked for, by Kill or Close
	failure error // why the start was given up
	stuck   error // why it may still be there although its life has ended
}

// Cable is how a driver ends what it runs.
type Cable interface {
	// Pull ends the machine at once, and reports whether it still ran. Whoever
	// follows it calls End when it is gone. Pull may be called again.
	Pull() bool
	// Release lets go of all that a machine holds that does not run.
	Release()
}

// NewPower returns the power of a machine that was not started yet. Stays is the
// advice about one that is killed and does not end.
func NewPower(name string, cable Cable, stays string) *Power {
	return &Power{Life: NewLife(name), cable: cable, stays: stays}
}

// On starts the machine: power must see to it that somebody follows it to its end,
// and has started nothing if it fails. The state is Starting from then on.
func (p *Power) On(op string, power func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Move(Starting, Stopped) {
		return p.Misfit(op)
	}
	if err := power(); err != nil {
		err = fault.Wrap(op, p.name, err)
		p.cable.Release()
		p.Life.End(err)
		return err
	}
	p.on = true
	return nil
}

// GiveUp ends a machine whose start came to nothing, and returns what Start does.
func (p *Power) GiveUp(op string, why error) error {
	p.mu.Lock()
	p.failure = why // unless it has ended: then it has its verdict
	p.cable.Pull()
	p.mu.Unlock()
	return p.Fallen(op)
}

// Fallen waits for the end of a machine that ends as it starts, and returns what Start does.
func (p *Power) Fallen(op string) error {
	<-p.Done()
	if err := p.Err(); err != nil {
		return err
	}
	return fault.Newf(fault.Rejected, op, p.name, "it was killed")
}

// Verdict is what to End a machine with that has ended by itself in such a way,
// unless somebody ended it.
func (p *Power) Verdict(how error) error {
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

// Panicked is the error of a machine whose guest's kernel panicked, with its report.
func (p *Power) Panicked(report string) error {
	return fault.Newf(fault.Execution, "run machine", p.name, "the guest's kernel panicked:\n%s", report).
		Advise("Start it again; if it panics again, another pack or more memory may help.")
}

// Abandon ends the life of a machine that cannot be made to end. Kill and Close
// say so from then on, until it is gone after all.
func (p *Power) Abandon(why error) {
	p.mu.Lock()
	p.stuck = why
	p.mu.Unlock()
	p.Life.End(why)
}

// End ends the life of a machine that is gone.
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
	if on && !p.Ended() && p.cable.Pull() {
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
		return fault.Wrap("kill machine", p.name, ctx.Err()).Advise(p.stays)
	}
}

// Close implements Machine.
func (p *Power) Close() error {
	p.mu.Lock()
	if !p.on && !p.Ended() {
		p.cable.Release()
		p.Life.End(nil)
	}
	p.mu.Unlock()
	return p.Kill(context.Background())
}

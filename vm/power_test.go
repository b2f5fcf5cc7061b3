package vm_test

import (
	"context"
	"errors"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// plug is a machine of which there is only the cable.
type plug struct {
	*vm.Power
	dead     bool  // it has ended by itself, and nobody knows yet
	deaf     bool  // pulling its cable does nothing
	how      error // it ends with when its cable is pulled
	released int
}

func newPlug() *plug {
	p := new(plug)
	p.Power = vm.NewPower("test", p, "Pull harder.")
	return p
}

func (p *plug) ForceOff() bool {
	if p.dead || p.deaf {
		return !p.dead
	}
	p.dead = true
	go p.over()
	return true
}

func (p *plug) Release() { p.released++ }

// over is what follows the machine to its end.
func (p *plug) over() {
	p.Release()
	p.End(p.EndError(p.how))
}

func (p *plug) start(t *testing.T) {
	t.Helper()
	if err := p.Launch("start", func() error { return nil }); err != nil || p.State() != vm.Starting {
		t.Fatalf("On = %v, and the machine is %s", err, p.State())
	}
}

// ended checks a machine that has ended: with why, and without what it held.
func (p *plug) ended(t *testing.T, why error) {
	t.Helper()
	<-p.Done()
	if err := p.Err(); !errors.Is(err, why) {
		t.Errorf("Err = %v, want %v", err, why)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if p.released != 1 {
		t.Errorf("what it held was let go of %d times", p.released)
	}
	if err := p.Launch("start", func() error { return nil }); fault.KindOf(err) != fault.Rejected {
		t.Errorf("On of a machine that has ended = %v, want rejected", err)
	}
}

var errWhy = errors.New("why")

func TestPowerOfAMachineThatIsNotStarted(t *testing.T) {
	p := newPlug()
	if err := p.Kill(t.Context()); err != nil || p.Ended() {
		t.Errorf("Kill = %v, ended %v", err, p.Ended())
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	p.ended(t, nil)

	p = newPlug()
	if err := p.Launch("start", func() error { return fault.New(fault.Unavailable, "", "", errWhy).Advise("Do that.") }); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) != "Do that." {
		t.Errorf("On = %v, advice %q", err, fault.AdviceOf(err))
	}
	if p.State() != vm.Failed {
		t.Errorf("after a start that failed the machine is %s", p.State())
	}
	p.ended(t, errWhy)
}

// An end that was asked for is orderly, whatever it looks like from below; any other is what it is.
func TestPowerTellsWhoEndedIt(t *testing.T) {
	p := newPlug()
	p.how = errors.New("signal: killed")
	p.start(t)
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("Kill = %v", err)
	}
	p.ended(t, nil)

	p = newPlug()
	p.how = errWhy
	p.start(t)
	p.dead = true // as it would be seen while it is killed
	killed := make(chan error, 1)
	go func() { killed <- p.Kill(context.WithoutCancel(t.Context())) }()
	p.over()
	if err := <-killed; err != nil {
		t.Errorf("Kill = %v", err)
	}
	p.ended(t, errWhy)
}

func TestPowerOfAStartThatIsGivenUp(t *testing.T) {
	p := newPlug()
	p.start(t)
	if err := p.AbortStart("start", errWhy); !errors.Is(err, errWhy) {
		t.Errorf("AbortStart = %v", err)
	}
	p.ended(t, errWhy)

	p = newPlug()
	p.start(t)
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("Kill = %v", err)
	}
	if err := p.AbortStart("start", errWhy); fault.KindOf(err) != fault.Rejected {
		t.Errorf("AbortStart of a machine that was killed = %v, want rejected", err)
	}
	p.ended(t, nil)
}

func TestPowerOfAMachineThatDoesNotEnd(t *testing.T) {
	p := newPlug()
	p.deaf = true
	p.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Kill(ctx); !errors.Is(err, context.Canceled) || fault.AdviceOf(err) != "Pull harder." {
		t.Errorf("Kill = %v, advice %q", err, fault.AdviceOf(err))
	}
	p.Abandon(errWhy)
	if err := p.Kill(t.Context()); !errors.Is(err, errWhy) || p.State() != vm.Failed {
		t.Errorf("Kill = %v, and the machine is %s", err, p.State())
	}
	if err := p.Close(); !errors.Is(err, errWhy) {
		t.Errorf("Close = %v", err)
	}
	p.over()
	if err := p.Close(); err != nil || !errors.Is(p.Err(), errWhy) {
		t.Errorf("when it is gone after all: Close = %v, Err = %v", err, p.Err())
	}
}

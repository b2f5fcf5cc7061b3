package vm

import (
	"context"
	"time"
)

// How long each step of Shutdown may take, and how often the button is pressed
// (a press before the guest listens is lost).
const (
	ButtonGrace = 5 * time.Second
	buttonEvery = time.Second
)

// Shutdown stops a machine the gentle way first: it calls powerOff, which asks
// the guest to power itself off, then presses the power button, and at last
// kills. Grace is how long the guest has after powerOff. A nil powerOff skips
// that step. A paused machine is resumed first, since it could not answer.
// Shutdown returns when the machine has ended; the error is that of the last
// step.
func Shutdown(ctx context.Context, m Machine, grace time.Duration, powerOff func(context.Context) error) error {
	if m.State().Ended() {
		return nil
	}
	if m.State() == Paused {
		// If this fails, so will the gentle steps, and the last one works.
		_ = m.Resume(ctx)
	}
	if powerOff != nil {
		ask, cancel := context.WithTimeout(ctx, grace)
		err := powerOff(ask)
		if err == nil && ended(ask, m) {
			cancel()
			return nil
		}
		cancel()
	}
	button, cancel := context.WithTimeout(ctx, ButtonGrace)
	defer cancel()
	for button.Err() == nil && m.RequestStop(button) == nil {
		press, done := context.WithTimeout(button, buttonEvery)
		stopped := ended(press, m)
		done()
		if stopped {
			return nil
		}
	}
	// The caller's patience may be over, but the machine must not stay.
	return m.Kill(context.WithoutCancel(ctx))
}

func ended(ctx context.Context, m Machine) bool {
	select {
	case <-m.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

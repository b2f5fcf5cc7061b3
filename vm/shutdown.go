package vm

import (
	"context"
	"time"
)

const (
	// buttonGrace is how long Shutdown presses the power button before it kills.
	buttonGrace = 5 * time.Second
	// buttonEvery is the pause between presses: the guest misses those that come
	// before its driver is loaded.
	buttonEvery = time.Second
)

// Shutdown ends a machine and returns when it has ended. It calls powerOff, which asks
// the guest to power off within grace, then presses the power button, then kills.
// powerOff may be nil.
func Shutdown(ctx context.Context, m Machine, grace time.Duration, powerOff func(context.Context) error) error {
	if m.State().Ended() {
		return nil
	}
	if powerOff != nil {
		ask, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if powerOff(ask) == nil && ended(ask, m) {
			return nil
		}
	}
	button, cancel := context.WithTimeout(ctx, buttonGrace)
	defer cancel()
	for button.Err() == nil && m.RequestStop(button) == nil {
		press, done := context.WithTimeout(button, buttonEvery)
		stopped := ended(press, m)
		done()
		if stopped {
			return nil
		}
	}
	// Kill even if the caller's context has ended: the machine must not keep running.
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

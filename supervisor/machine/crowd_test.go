package machine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

// TestCrowd runs random commands concurrently while guests crash and freeze.
// Any state may result, but it must be true, each call must return in time,
// and two guests must never run at once.
func TestCrowd(t *testing.T) {
	const worlds, callers, calls = 20, 8, 40
	for seed := range uint64(worlds) {
		timetest.Synthetic(t, func(t *testing.T) {
			w := newWorld(t, `{"idleStopMinutes": 1}`, func(b *fakeBackend) { b.provisioned = seed%2 == 0 })
			defer w.close()
			var crowd sync.WaitGroup
			for caller := range uint64(callers) {
				crowd.Go(func() {
					random := rand.New(rand.NewPCG(seed, caller))
					for range calls {
						time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
						w.call(random)
					}
				})
			}
			crowd.Go(func() {
				random := rand.New(rand.NewPCG(seed, callers))
				for range calls {
					time.Sleep(time.Duration(random.IntN(30_000)) * time.Millisecond)
					w.disturb(random)
				}
			})
			crowd.Wait()
			w.backend.set(func(b *fakeBackend) { b.noHost, b.failBoots, b.failPrepare, b.delay = false, 0, false, 0 })
			time.Sleep(5 * time.Minute)
			w.wantTruth()
			w.must(w.Start(t.Context(), by)) // a start by hand always works
			w.wantTruth()
			w.wantState(machine.Running)
		})
	}
}

// callLimit exceeds the duration of any call, including the wait for others' operations.
const callLimit = 5 * time.Minute

func (w *world) call(random *rand.Rand) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(random.IntN(int(callLimit))))
	defer cancel()
	c := commands()[random.IntN(len(commands()))]
	deadline, _ := ctx.Deadline()
	err := w.command(ctx, c)
	if f, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || f.Kind == "") {
		w.t.Errorf("%s: an error without a kind: %v", c, err)
	}
	// A command that has been started ends by itself within 10 ms.
	if late := time.Since(deadline); late > 10*time.Millisecond {
		w.t.Errorf("%s came back %v after its deadline", c, late)
	}
}

// disturb breaks the host, the backend or the guest at random.
func (w *world) disturb(random *rand.Rand) {
	g := w.running()
	switch n := random.IntN(8); {
	case n == 0:
		w.backend.set(func(b *fakeBackend) { b.noHost = !b.noHost })
	case n == 1:
		w.backend.set(func(b *fakeBackend) { b.failBoots = random.IntN(4) })
	case n == 2:
		w.backend.set(func(b *fakeBackend) { b.failPrepare = !b.failPrepare })
	case n == 3:
		w.backend.set(func(b *fakeBackend) { b.delay = time.Duration(random.IntN(10_000)) * time.Millisecond })
	case g == nil:
	case n == 4:
		g.freeze()
	case n == 5:
		g.thaw()
	case n == 6:
		g.die(errors.New("killed"))
	case n == 7:
		g.die(nil)
	}
}

// wantTruth fails the test unless the state matches the backend's.
func (w *world) wantTruth() {
	w.t.Helper()
	timetest.Wait()
	g, state := w.running(), w.Status().State
	alive := g != nil && !g.over()
	switch state {
	case machine.Running, machine.Unresponsive:
		if !alive {
			w.t.Errorf("the sandbox is %s, but no guest runs", state)
		}
	case machine.Provisioning, machine.Starting, machine.Stopping:
		w.t.Errorf("the sandbox is still %s", state)
	default:
		if alive {
			w.t.Errorf("the sandbox is %s, but a guest runs", state)
		}
	}
	if (state == machine.NotProvisioned) == w.backend.Provisioned() && state != machine.Failed && state != machine.SetupRequired {
		w.t.Errorf("the sandbox is %s, provisioned: %v", state, w.backend.Provisioned())
	}
}

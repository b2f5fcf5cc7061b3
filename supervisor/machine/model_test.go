package machine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

// model is the expected state of a sandbox after a sequence of commands and faults.
type model struct {
	provisioned, noHost bool
	alive, silent       bool
	failed              bool // since its last operation
	setup               bool // a check found that the host cannot run machines
	doubt               bool // the last check failed
	badBoots            int
}

// look checks whether the host can run machines.
func (m *model) look() bool {
	m.setup, m.doubt = m.noHost, m.noHost
	return !m.noHost
}

func (m *model) state() machine.State {
	switch {
	case m.alive && m.silent:
		return machine.Unresponsive
	case m.alive:
		return machine.Running
	case m.setup:
		return machine.SetupRequired
	case m.failed:
		return machine.Failed
	case m.provisioned:
		return machine.Stopped
	}
	return machine.NotProvisioned
}

// start boots, and once more if that fails. It checks the host if asked, or if the
// last check failed.
func (m *model) start(check bool) {
	m.alive, m.silent, m.failed, m.setup = false, false, false, false
	if (check || m.doubt) && !m.look() {
		return
	}
	m.provisioned = true
	if m.badBoots == 0 {
		m.alive = true
		return
	}
	m.badBoots--
	if !m.look() { // the second time everything is checked
		return
	}
	if m.badBoots == 0 {
		m.alive = true
		return
	}
	m.badBoots--
	m.failed = true
}

func (m *model) command(c machine.Command) {
	switch state := m.state(); c {
	case machine.Provision:
		if state != machine.Running {
			m.start(true)
		}
	case machine.Start:
		if state != machine.Running {
			m.start(false)
		}
	case machine.Restart:
		m.start(false)
	case machine.Stop:
		if !m.setup {
			m.alive, m.silent, m.failed = false, false, false
		}
	case machine.Reset:
		if state == machine.SetupRequired || state == machine.NotProvisioned {
			return
		}
		ran := m.alive
		m.alive, m.silent, m.failed = false, false, false
		if m.look() && ran {
			m.start(false)
		}
	case machine.Remove:
		*m = model{noHost: m.noHost, doubt: m.doubt, badBoots: m.badBoots}
	}
}

// TestModel compares the state with the model's after each of thousands of random steps.
func TestModel(t *testing.T) {
	const worlds, steps = 30, 150
	for seed := range uint64(worlds) {
		timetest.Synthetic(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, quiet, func(b *fakeBackend) { b.delay = time.Second })
			defer w.close()
			m := &model{}
			var story []string
			for range steps {
				what := ""
				switch n := random.IntN(10); {
				case n < 6:
					c := commands()[random.IntN(6)] // Exec is for the crowd
					what = string(c)
					err := w.command(t.Context(), c)
					m.command(c)
					if f, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || f.Kind == "") {
						t.Fatalf("%s: an error without a kind: %v", c, err)
					}
				case n == 6:
					what = "crash"
					if m.alive {
						w.running().die(errors.New("killed"))
						m.alive, m.silent, m.failed = false, false, true
					}
				case n == 7:
					what = "freeze or thaw"
					if m.alive && !m.silent {
						w.running().freeze()
						m.silent = true
					} else if m.alive {
						w.running().thaw()
						m.silent = false
					}
				case n == 8:
					what = "break or repair the host"
					m.noHost = !m.noHost
					w.backend.set(func(b *fakeBackend) { b.noHost = m.noHost })
				case n == 9:
					what = "boots will fail"
					m.badBoots = random.IntN(4)
					w.backend.set(func(b *fakeBackend) { b.failBoots = m.badBoots })
				}
				time.Sleep(10 * time.Second)
				story = append(story, fmt.Sprintf("%s: %s", what, m.state()))
				if got := w.Status().State; got != m.state() {
					t.Fatalf("seed %d: the sandbox is %s, want %s, after\n%q", seed, got, m.state(), story[max(0, len(story)-8):])
				}
			}
		})
	}
}

// TestCrowd runs random commands of many callers at once, with crashes and silence
// between. The state must be true, every call must return, and there must never be
// two guests.
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
			w.must(w.Start(t.Context(), by)) // must always work
			w.wantTruth()
			w.wantState(machine.Running)
		})
	}
}

// callLimit is more than any call may take, since a call waits for few operations.
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

// disturb damages or repairs something at random.
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

// wantTruth fails the test unless the state matches the backend.
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

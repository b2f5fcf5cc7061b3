package machine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

const quiet = `{"autoRestart": false}`

// settle is long enough that the end of a guest is no failed start.
const settle = 3 * time.Minute

// reach brings a new sandbox into a state. An operation in progress goes on when
// release is called.
func reach(t *testing.T, state machine.State) (w *world, release func()) {
	t.Helper()
	stuck := make(chan struct{})
	hold := func(b *fakeBackend) { b.stuck = stuck }
	release = func() {
		w.backend.set(func(b *fakeBackend) { b.stuck = nil })
		close(stuck)
	}
	background := func(command func(context.Context, machine.Cause) error) {
		go func() { _ = command(context.Background(), by) }()
		timetest.Wait()
	}
	run := func() {
		w = newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true })
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
	}
	switch state {
	case machine.SetupRequired:
		w = newWorld(t, quiet, func(b *fakeBackend) { b.noHost = true })
		w.backend.set(func(b *fakeBackend) { b.noHost = false }) // it was repaired
	case machine.NotProvisioned:
		w = newWorld(t, quiet, func(*fakeBackend) {})
	case machine.Provisioning:
		w = newWorld(t, quiet, hold)
		background(w.Start)
	case machine.Stopped:
		w = newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true })
	case machine.Starting:
		w = newWorld(t, quiet, func(b *fakeBackend) { hold(b); b.provisioned = true })
		background(w.Start)
	case machine.Running:
		run()
	case machine.Unresponsive:
		run()
		w.running().freeze()
		time.Sleep(7 * time.Second)
	case machine.Stopping:
		run()
		w.backend.set(hold)
		background(w.Stop)
	case machine.Failed:
		run()
		w.running().die(errors.New("killed"))
	}
	timetest.Wait()
	w.wantState(state)
	return w, release
}

func states() []machine.State {
	return []machine.State{
		machine.SetupRequired, machine.NotProvisioned, machine.Provisioning, machine.Stopped, machine.Starting,
		machine.Running, machine.Unresponsive, machine.Stopping, machine.Failed,
	}
}

func commands() []machine.Command {
	return []machine.Command{
		machine.Provision, machine.Start, machine.Stop, machine.Restart, machine.Reset, machine.Remove, machine.Exec,
	}
}

// TestEveryCommandInEveryState lists the state after each command in each state, or
// the kind of its error.
func TestEveryCommandInEveryState(t *testing.T) {
	const refused = string(fault.Unavailable)
	table := []struct {
		state                                              machine.State
		provision, start, stop, restart, reset, remove, do string
	}{
		{machine.SetupRequired, "running", "running", "setup_required", "running", refused, "not_provisioned", refused},
		{machine.NotProvisioned, "running", "running", "not_provisioned", "running", refused, "not_provisioned", refused},
		{machine.Provisioning, "running", "running", "not_provisioned", "running", refused, "not_provisioned", "running"},
		{machine.Stopped, "running", "running", "stopped", "running", "stopped", "not_provisioned", "running"},
		{machine.Starting, "running", "running", "stopped", "running", "stopped", "not_provisioned", "running"},
		{machine.Running, "running", "running", "stopped", "running", "running", "not_provisioned", "running"},
		{machine.Unresponsive, "running", "running", "stopped", "running", "running", "not_provisioned", refused},
		{machine.Stopping, "running", "running", "stopped", "running", "stopped", "not_provisioned", "running"},
		{machine.Failed, "running", "running", "stopped", "running", "stopped", "not_provisioned", "running"},
	}
	if len(table) != len(states()) {
		t.Fatalf("the table has %d states of %d", len(table), len(states()))
	}
	for _, row := range table {
		wants := []string{row.provision, row.start, row.stop, row.restart, row.reset, row.remove, row.do}
		for i, c := range commands() {
			t.Run(fmt.Sprintf("%s %s", row.state, c), func(t *testing.T) {
				timetest.Synthetic(t, func(t *testing.T) {
					w, release := reach(t, row.state)
					defer w.close()
					result := make(chan error, 1)
					go func() { result <- w.command(t.Context(), c) }()
					timetest.Wait()
					release()
					if err := <-result; err != nil {
						if got := string(fault.KindOf(err)); got != wants[i] {
							t.Errorf("it failed with %s (%v), want %s", got, err, wants[i])
						}
						if fault.AdviceOf(err) == "" {
							t.Errorf("no advice with %v", err)
						}
						return
					}
					if got := string(w.Status().State); got != wants[i] {
						t.Errorf("the sandbox is %s, want %s", got, wants[i])
					}
				})
			})
		}
	}
}

package machine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

func provisioned(b *fakeBackend) { b.provisioned = true }

func TestStartsAtOnceAreOne(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Second })
		defer w.close()
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() { w.expect(w.Start(t.Context(), by)) })
		}
		callers.Wait()
		if w.boots() != 1 {
			t.Errorf("%d boots for starts at once", w.boots())
		}
	})
}

// expect is must, for goroutines that are not the test.
func (w *world) expect(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

func TestFailedStartIsSharedToo(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Second; b.failBoots = 2 })
		defer w.close()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				if err := w.Start(t.Context(), by); fault.KindOf(err) != fault.Timeout {
					t.Errorf("Start: %v", err)
				}
			})
		}
		callers.Wait()
		w.wantState(machine.Failed)
		if w.boots() != 2 || w.cold() != 1 {
			t.Errorf("%d boots, %d of them cold; want one retry, cold", w.boots(), w.cold())
		}
		if s := w.Status(); !strings.Contains(s.Reason, "did not answer") || s.Kind != fault.Timeout || s.Failures != 1 {
			t.Errorf("the status does not say why: %+v", s)
		}
	})
}

func TestWhoeverStopsWaitingStopsNothing(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Minute })
		defer w.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Start(ctx, by); fault.KindOf(err) != fault.Timeout {
			t.Errorf("Start: %v", err)
		}
		w.wantState(machine.Starting)
		time.Sleep(3 * time.Minute)
		w.wantState(machine.Running)
	})
}

func TestStartsThatFailCoolDown(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{}`, func(b *fakeBackend) { b.provisioned = true; b.failBoots = 1000 })
		defer w.close()
		for i := range 3 {
			if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Timeout {
				t.Fatalf("start %d: %v", i+1, err)
			}
			boots := w.boots()
			if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), ": ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("a start right after one that failed: %v", err)
			}
			if w.boots() != boots {
				t.Fatal("it booted without a pause")
			}
			time.Sleep(121 * time.Second)
		}
		if !w.Status().NeverAgain {
			t.Error("the status does not say that it takes a person")
		}
		time.Sleep(24 * time.Hour)
		if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
			t.Errorf("a fourth start: %v", err)
		}
		w.backend.set(func(b *fakeBackend) { b.failBoots = 0 })
		w.must(w.Start(t.Context(), by)) // by hand always
		if w.Status().Failures != 0 {
			t.Error("a start by hand that works does not forgive")
		}
	})
}

func TestIdleGuestIsStoppedAndStartedOnDemand(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{"idleStopMinutes": 10}`, provisioned)
		defer w.close()
		p, err := w.Exec(t.Context(), engine.Command{Args: []string{"1h"}})
		w.must(err)
		time.Sleep(59 * time.Minute)
		w.wantState(machine.Running)
		if !w.Status().IdleStop.IsZero() {
			t.Error("it is to be stopped while it is used")
		}
		_, err = p.Wait()
		w.must(err)
		time.Sleep(9 * time.Minute)
		w.wantState(machine.Running)
		time.Sleep(3 * time.Minute)
		w.wantState(machine.Stopped)
		w.must(w.command(t.Context(), machine.Exec))
		w.wantState(machine.Running)

		changed, err := w.Set(map[string]string{"idleStopMinutes": "0", "cpus": "2"}, by)
		if err != nil || !slices.Equal(changed, []string{"idleStopMinutes"}) || config.EffectOf(changed[0]) != config.Live {
			t.Errorf("Set: %v, %v", changed, err)
		}
		time.Sleep(time.Hour)
		w.wantState(machine.Running)
		if n := w.record.count(machine.SettingChanged); n != 1 {
			t.Errorf("%d events of a setting", n)
		}
	})
}

// Who only looks after a guest does not keep it running.
func TestPeekDoesNotResetIdleTimer(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{"idleStopMinutes": 10}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		for range 15 {
			if l, ok := w.Peek(); ok {
				time.Sleep(5 * time.Second)
				l.Release()
			}
			time.Sleep(time.Minute)
		}
		w.wantState(machine.Stopped)
		if _, ok := w.Peek(); ok {
			t.Error("a guest that does not run is visited")
		}
	})
}

func TestResetAndRemove(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{"autoStart": true}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		w.must(w.Reset(t.Context(), by))
		w.wantState(machine.Running)
		if w.disks() != 1 || w.boots() != 2 {
			t.Errorf("%d new disks, %d boots", w.disks(), w.boots())
		}
		w.must(w.Remove(t.Context(), by))
		w.AutoStart()
		time.Sleep(time.Hour)
		w.wantState(machine.NotProvisioned)
		if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Exec of what was removed: %v", err)
		}
		w.must(w.Start(t.Context(), by))
		w.wantState(machine.Running)
	})
}

// What is half removed is not made again until a person asks, and the status says what is left.
func TestRemoveThatFailsHalfWay(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{"autoStart": true}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		w.backend.set(func(b *fakeBackend) { b.failRemove = true })
		if err := w.Remove(t.Context(), by); fault.AdviceOf(err) != "Close it." {
			t.Errorf("Remove: %v, advice %q", err, fault.AdviceOf(err))
		}
		w.AutoStart()
		time.Sleep(time.Hour)
		if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Exec of what was half removed: %v", err)
		}
		w.wantState(machine.NotProvisioned)
		if s := w.Status(); !strings.Contains(s.Reason, "it is in use") || s.Advice != "Close it." || s.Kind != fault.Unavailable || s.Failures != 0 {
			t.Errorf("status: %+v", s)
		}
		if w.boots() != 1 {
			t.Errorf("%d boots", w.boots())
		}
		w.backend.set(func(b *fakeBackend) { b.failRemove = false })
		w.must(w.Remove(t.Context(), by))
		w.wantState(machine.NotProvisioned)
		if s := w.Status(); s.Reason != "" {
			t.Errorf("the reason is still %s", s.Reason)
		}
		w.must(w.Start(t.Context(), by))
		w.wantState(machine.Running)
	})
}

// What may still write to the disk has it to itself, until it is gone; and nobody is told that
// it is.
func TestDiskOfAMachineThatIsNotGone(t *testing.T) {
	for _, c := range []machine.Command{machine.Stop, machine.Reset, machine.Remove} {
		for _, stopped := range []bool{false, true} {
			timetest.Synthetic(t, func(t *testing.T) {
				w := newWorld(t, quiet, func(b *fakeBackend) {
					b.provisioned, b.stays = true, fault.Newf(fault.Timeout, "kill machine", "", "it is not gone").Advise("Wait for the disk.")
				})
				defer w.close()
				w.must(w.Start(t.Context(), by))
				asked := []machine.Command{c}
				if stopped {
					asked = []machine.Command{machine.Stop, c}
				}
				for _, c := range asked {
					if err := w.command(t.Context(), c); fault.AdviceOf(err) != "Wait for the disk." {
						t.Errorf("%s: %v, advice %q", c, err, fault.AdviceOf(err))
					}
				}
				w.wantState(machine.Failed)
				if w.disks() != 0 {
					t.Error("the disk was taken away")
				}
				w.backend.set(func(b *fakeBackend) { b.stays = nil })
				w.must(w.command(t.Context(), c))
			})
		}
	}
}

func TestHostWithoutMachines(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, `{}`, func(b *fakeBackend) { b.noHost = true })
		defer w.close()
		w.wantState(machine.SetupRequired)
		if s := w.Status(); s.Advice != "Install it." {
			t.Errorf("advice: %q", s.Advice)
		}
		if err := w.Start(t.Context(), by); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Start: %v", err)
		}
		w.wantState(machine.SetupRequired)
	})
}

func TestStatusWhileEverythingHangs(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w, release := reach(t, machine.Stopping)
		defer w.close()
		before := time.Now()
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { w.Status() })
		}
		callers.Wait()
		if time.Since(before) > 0 {
			t.Error("Status waits")
		}
		release()
	})
}

func TestStatusShowsProgress(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.delay = time.Minute })
		defer w.close()
		go func() { _ = w.Start(context.Background(), by) }()
		time.Sleep(30 * time.Second)
		steps := w.Status().Progress.Steps
		if s := steps[1]; s.Name != progress.StepImage || s.State != progress.InProgress || s.Took != 30*time.Second {
			t.Errorf("after 30 s: %+v", steps)
		}
	})
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w := newWorld(t, quiet, provisioned)
		defer w.close()
		if _, err := machine.New(t.Context(), machine.Options{Home: w.Home(), Backend: &fakeBackend{t: t}}); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "process") {
			t.Errorf("a second supervisor: %v", err)
		}
	})
}

func TestCloseInterruptsAStart(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		w, _ := reach(t, machine.Starting)
		result := make(chan error, 1)
		go func() { result <- w.Restart(context.Background(), by) }()
		timetest.Wait()
		w.close()
		if err := <-result; err == nil {
			t.Error("Restart worked after Close")
		}
		if err := w.Start(t.Context(), by); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Start after Close: %v", err)
		}
		if _, err := w.Next(t.Context(), w.Status().Revision); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Next after Close: %v", err)
		}
	})
}

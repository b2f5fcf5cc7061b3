package machine_test

import (
	"context"
	"errors"
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

// Callers at once share one start, and its failure.
func TestStartsAtOnceAreOne(t *testing.T) {
	for failing, boots := range map[int]int{0: 1, 2: 2} { // one retry
		inWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Second; b.failBoots = failing }, func(t *testing.T, w *world) {
			var callers sync.WaitGroup
			for range 200 {
				callers.Go(func() {
					if err := w.Start(t.Context(), by); (err == nil) != (failing == 0) || err != nil && fault.KindOf(err) != fault.Timeout {
						t.Errorf("Start: %v", err)
					}
				})
			}
			callers.Wait()
			if w.boots() != boots || w.cold() != boots-1 {
				t.Errorf("%d boots, %d of them verified everything", w.boots(), w.cold())
			}
			if s := w.Status(); failing > 0 && (!strings.Contains(s.Reason, "did not answer") || s.Kind != fault.Timeout || s.Failures != 1) {
				t.Errorf("the status does not say why: %+v", s)
			}
		})
	}
}

func TestWhoeverStopsWaitingStopsNothing(t *testing.T) {
	inWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Minute }, func(t *testing.T, w *world) {
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
	inWorld(t, `{}`, func(b *fakeBackend) { b.provisioned = true; b.failBoots = 1000 }, func(t *testing.T, w *world) {
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
		w.must(w.Start(t.Context(), by)) // a person always may
		if w.Status().Failures != 0 {
			t.Error("a start by hand that works does not forgive")
		}
	})
}

func TestIdleGuestIsStoppedAndStartedOnDemand(t *testing.T) {
	inWorld(t, `{"idleStopMinutes": 10}`, provisioned, func(t *testing.T, w *world) {
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

func TestPeekDoesNotResetIdleTimer(t *testing.T) {
	inWorld(t, `{"idleStopMinutes": 10}`, provisioned, func(t *testing.T, w *world) {
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

// A half removed sandbox stays removed until a person starts it, and the status says what is left.
func TestRemoveThatFailsHalfWay(t *testing.T) {
	inWorld(t, `{"autoStart": true}`, provisioned, func(t *testing.T, w *world) {
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

// While a killed machine may still write to the disk, the disk is not touched, and commands fail.
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

func TestStatusShowsProgress(t *testing.T) {
	inWorld(t, quiet, func(b *fakeBackend) { b.delay = time.Minute }, func(t *testing.T, w *world) {
		go func() { _ = w.Start(context.Background(), by) }()
		time.Sleep(30 * time.Second)
		steps := w.Status().Progress.Steps
		if s := steps[1]; s.Name != progress.StepImage || s.State != progress.InProgress || s.Took != 30*time.Second {
			t.Errorf("after 30 s: %+v", steps)
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

func TestOffline(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		broken := fault.Newf(fault.Rejected, "copy", "", "no space")
		for _, ran := range []bool{false, true} {
			rest := machine.Stopped
			if ran {
				w.must(w.Start(t.Context(), by))
				rest = machine.Running
			}
			for _, want := range []error{nil, broken} {
				var command error
				done := make(chan struct{}, 1)
				err := w.Offline(t.Context(), by, func(ctx context.Context) error {
					w.wantState(machine.Provisioning)
					if _, ok := w.Peek(); ok {
						t.Error("a guest runs")
					}
					go func() {
						command = w.command(context.Background(), machine.Exec)
						done <- struct{}{}
					}()
					time.Sleep(time.Minute)
					return want
				})
				if !errors.Is(err, want) {
					t.Errorf("Offline: %v, want %v", err, want)
				}
				<-done
				if command != nil {
					t.Errorf("a command that waited: %v", command)
				}
				if !ran {
					w.must(w.Stop(t.Context(), by))
				}
				w.wantState(rest)
			}
		}
		// Its caller and a stop end the work.
		for _, end := range []func(context.CancelFunc){
			func(cancel context.CancelFunc) { cancel() },
			func(context.CancelFunc) { go func() { _ = w.Stop(context.Background(), by) }() },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			err := w.Offline(ctx, by, func(ctx context.Context) error {
				end(cancel)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if err == nil {
				t.Error("Offline worked")
			}
			cancel()
		}
		w.must(w.Stop(t.Context(), by))
		w.wantState(machine.Stopped)
	})
}

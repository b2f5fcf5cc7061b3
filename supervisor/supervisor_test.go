package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/journey"
)

func provisioned(b *fakeBackend) { b.provisioned = true }

func TestStartsAtOnceAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
		w.wantState(supervisor.Failed)
		if w.boots() != 2 || w.cold() != 1 {
			t.Errorf("%d boots, %d of them cold; want one retry, cold", w.boots(), w.cold())
		}
		if s := w.Status(); !strings.Contains(s.Reason, "did not answer") || s.Kind != fault.Timeout || s.Failures != 1 {
			t.Errorf("the status does not say why: %+v", s)
		}
	})
}

func TestWhoeverStopsWaitingStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.provisioned = true; b.delay = time.Minute })
		defer w.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Start(ctx, by); fault.KindOf(err) != fault.Timeout {
			t.Errorf("Start: %v", err)
		}
		w.wantState(supervisor.Starting)
		time.Sleep(3 * time.Minute)
		w.wantState(supervisor.Running)
	})
}

func TestSilentGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)

		began := time.Now()
		w.running().freeze()
		became := func(want supervisor.State) time.Duration {
			status := w.Status()
			for status.State != want {
				var err error
				if status, err = w.Next(t.Context(), status.Revision); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if took := became(supervisor.Unresponsive); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("noticed after %v", took)
		}
		if _, err := w.Exec(t.Context(), guest.Command{Args: []string{"1s"}}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Exec: %v", err)
		}
		w.running().thaw()
		if took := became(supervisor.Running); took > 10*time.Second {
			t.Errorf("its recovery noticed after %v", took)
		}
		if w.boots() != 1 {
			t.Error("a guest that recovered was started again")
		}

		began = time.Now()
		w.running().freeze()
		became(supervisor.Unresponsive)
		if took := became(supervisor.Running); took > 20*time.Second || w.boots() != 2 {
			t.Errorf("started again after %v, %d boots", took, w.boots())
		}
	})
}

// A guest that was silent and is slow since is given the time that it takes, and not started
// again: what runs in it would be lost.
func TestSlowGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		w.running().answersAfter(time.Minute)
		time.Sleep(6 * time.Second)
		w.wantState(supervisor.Unresponsive)
		w.running().answersAfter(3 * time.Second)
		time.Sleep(time.Hour)
		w.wantState(supervisor.Running)
		if w.boots() != 1 {
			t.Errorf("%d boots", w.boots())
		}
	})
}

// A guest that is silent for a while is lent as the one that it was, but no command begins in it.
func TestLoanOfASilentGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := reach(t, supervisor.Unresponsive)
		defer w.close()
		l, ok := w.BorrowRunning()
		if !ok || l.Guest != w.running() {
			t.Fatal("the guest is not lent")
		}
		l.Return()
		if _, err := w.Borrow(t.Context()); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Borrow: %v", err)
		}
	})
}

// A machine that did not end when it was to, and ends later, is gone then; the sandbox has failed
// as before.
func TestLateEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		w.backend.set(func(b *fakeBackend) { b.immortal = true })
		if err := w.Stop(t.Context(), by); fault.KindOf(err) != fault.Execution {
			t.Errorf("Stop: %v", err)
		}
		w.wantState(supervisor.Failed)
		w.running().die(nil)
		synctest.Wait()
		w.wantState(supervisor.Failed)
		if s := w.Status(); !s.StartedAt.IsZero() || s.Reason == "" {
			t.Errorf("%+v", s)
		}
		w.backend.set(func(b *fakeBackend) { b.immortal = false })
		w.must(w.Start(t.Context(), by))
	})
}

func TestStopOfAGuestThatFellSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, func(b *fakeBackend) { b.provisioned = true; b.delay = 30 * time.Second })
		defer w.close()
		w.must(w.Start(t.Context(), by))
		began := time.Now()
		w.must(w.Stop(t.Context(), by))
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("a guest that answers had %v to stop", took)
		}
		w.must(w.Start(t.Context(), by))
		w.running().freeze()
		began = time.Now()
		w.must(w.Stop(t.Context(), by))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("a guest that does not was waited for for %v", took)
		}
	})
}

func TestDeadMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		p, err := w.Exec(t.Context(), guest.Command{Args: []string{"1h"}})
		w.must(err)

		before := time.Now()
		w.running().die(errors.New("killed"))
		if _, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("the command's end: %v", err)
		}
		synctest.Wait()
		w.wantState(supervisor.Running)
		if took := time.Since(before); took > 0 || w.boots() != 2 {
			t.Errorf("running again after %v, %d boots", took, w.boots())
		}

		time.Sleep(settle)
		w.running().die(nil)
		synctest.Wait()
		w.wantState(supervisor.Stopped) // it powered itself off: somebody in it wanted that
	})
}

func TestStartsThatFailCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, func(b *fakeBackend) { b.provisioned = true; b.failBoots = 1000 })
		defer w.close()
		for i := range 3 {
			if err := w.command(t.Context(), supervisor.Exec); fault.KindOf(err) != fault.Timeout {
				t.Fatalf("start %d: %v", i+1, err)
			}
			boots := w.boots()
			if err := w.command(t.Context(), supervisor.Exec); fault.KindOf(err) != fault.Unavailable {
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
		if err := w.command(t.Context(), supervisor.Exec); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
			t.Errorf("a fourth start: %v", err)
		}
		w.backend.set(func(b *fakeBackend) { b.failBoots = 0 })
		w.must(w.Start(t.Context(), by)) // by hand always
		if w.Status().Failures != 0 {
			t.Error("a start by hand that works does not forgive")
		}
	})
}

// A guest that crashes soon after each start is not started for ever.
func TestCrashLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		for range 20 {
			w.running().die(errors.New("panic"))
			time.Sleep(time.Minute)
			_ = w.command(t.Context(), supervisor.Exec) // starts it if that may be
		}
		if w.boots() > 3 {
			t.Errorf("%d boots", w.boots())
		}
		w.wantState(supervisor.Failed)
	})
}

// Nor is one that powers itself off.
func TestPowerOffLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		for range 20 {
			_ = w.command(t.Context(), supervisor.Exec)
			w.running().die(nil)
			synctest.Wait()
		}
		if w.boots() > 3 {
			t.Errorf("%d boots", w.boots())
		}
		w.wantState(supervisor.Stopped)
		if err := w.command(t.Context(), supervisor.Exec); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
			t.Errorf("one more: %v", err)
		}
		w.must(w.Start(t.Context(), by)) // by hand always
	})
}

// What is in memory is what is in the file, whoever changes settings at once.
func TestSettingsTogether(t *testing.T) {
	w := newWorld(t, quiet, provisioned)
	defer w.close()
	for round := range 20 {
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				_, err := w.Set(map[string]string{"idleStopMinutes": fmt.Sprint(10*round + n + 1)}, by)
				w.expect(err)
			})
		}
		all.Wait()
		file, err := config.Load(w.Home().SettingsFile())
		w.must(err)
		if was, is := w.Settings().IdleStopMinutes, file.Settings().IdleStopMinutes; was != is {
			t.Fatalf("the memory has %v, the file %v", was, is)
		}
	}
}

func TestIdleGuestIsStoppedAndStartedOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{"idleStopMinutes": 10}`, provisioned)
		defer w.close()
		p, err := w.Exec(t.Context(), guest.Command{Args: []string{"1h"}})
		w.must(err)
		time.Sleep(59 * time.Minute)
		w.wantState(supervisor.Running)
		if !w.Status().IdleStop.IsZero() {
			t.Error("it is to be stopped while it is used")
		}
		_, err = p.Wait()
		w.must(err)
		time.Sleep(9 * time.Minute)
		w.wantState(supervisor.Running)
		time.Sleep(3 * time.Minute)
		w.wantState(supervisor.Stopped)
		w.must(w.command(t.Context(), supervisor.Exec))
		w.wantState(supervisor.Running)

		changed, err := w.Set(map[string]string{"idleStopMinutes": "0", "cpus": "2"}, by)
		if err != nil || !slices.Equal(changed, []string{"idleStopMinutes"}) || config.EffectOf(changed[0]) != config.Live {
			t.Errorf("Set: %v, %v", changed, err)
		}
		time.Sleep(time.Hour)
		w.wantState(supervisor.Running)
		if n := w.record.count(supervisor.SettingChanged); n != 1 {
			t.Errorf("%d events of a setting", n)
		}
	})
}

func TestResetAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{"autoStart": true}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		w.must(w.Reset(t.Context(), by))
		w.wantState(supervisor.Running)
		if w.disks() != 1 || w.boots() != 2 {
			t.Errorf("%d new disks, %d boots", w.disks(), w.boots())
		}
		w.must(w.Remove(t.Context(), by))
		w.AutoStart()
		time.Sleep(time.Hour)
		w.wantState(supervisor.NotProvisioned)
		if err := w.command(t.Context(), supervisor.Exec); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Exec of what was removed: %v", err)
		}
		w.must(w.Start(t.Context(), by))
		w.wantState(supervisor.Running)
	})
}

func TestHostWithoutMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, func(b *fakeBackend) { b.noHost = true })
		defer w.close()
		w.wantState(supervisor.SetupRequired)
		if s := w.Status(); s.Advice != "Install it." {
			t.Errorf("advice: %q", s.Advice)
		}
		if err := w.Start(t.Context(), by); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Start: %v", err)
		}
		w.wantState(supervisor.SetupRequired)
	})
}

// A command whose guest falls silent ends for its caller all the same.
func TestCommandInSilentGuestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		p, err := w.Exec(t.Context(), guest.Command{Args: []string{"1h"}, Timeout: time.Minute})
		w.must(err)
		w.running().freeze()
		began := time.Now()
		if _, err := w.Exec(t.Context(), guest.Command{Args: []string{"1s"}}); fault.KindOf(err) != fault.Timeout {
			t.Errorf("Exec in a silent guest: %v", err)
		}
		if took := time.Since(began); took > 16*time.Second {
			t.Errorf("it took %v", took)
		}
		if _, err := p.Wait(); fault.KindOf(err) != fault.Timeout {
			t.Errorf("the end of the command: %v", err)
		}
		if took := time.Since(began); took > 71*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

func TestManyCallsWhileTheGuestFreezes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{}`, provisioned)
		defer w.close()
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		began := time.Now()
		var callers sync.WaitGroup
		for i := range 200 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond) // the guest freezes among them
				if i == 100 {
					w.running().freeze()
				}
				p, err := w.Exec(t.Context(), guest.Command{Args: []string{"1s"}})
				if err == nil {
					_, err = p.Wait()
				}
				if kind := fault.KindOf(err); err != nil && kind != fault.Timeout && kind != fault.Unavailable {
					t.Errorf("call %d: %v (%s)", i, err, kind)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the last call came back after %v", took)
		}
		time.Sleep(30 * time.Second)
		w.wantState(supervisor.Running) // it was started again
	})
}

func TestStatusWhileEverythingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := reach(t, supervisor.Stopping)
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

func TestJourneyIsShownAndRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, func(b *fakeBackend) { b.delay = time.Minute })
		defer w.close()
		w.must(w.Start(t.Context(), by))
		w.must(w.Stop(t.Context(), by))
		go func() { _ = w.Start(context.Background(), by) }()
		time.Sleep(30 * time.Second)
		j := w.Status().Journey
		leg := j.Legs[1]
		if leg.Step != journey.Image || leg.Status != journey.InProgress || leg.Left != 30*time.Second || j.Left != 90*time.Second {
			t.Errorf("after half of the first of two minutes: %+v", j)
		}
	})
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, provisioned)
		defer w.close()
		if _, err := supervisor.New(t.Context(), supervisor.Options{Home: w.Home(), Backend: &fakeBackend{t: t}}); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "process") {
			t.Errorf("a second supervisor: %v", err)
		}
	})
}

func TestCloseInterruptsAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := reach(t, supervisor.Starting)
		result := make(chan error, 1)
		go func() { result <- w.Restart(context.Background(), by) }()
		synctest.Wait()
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

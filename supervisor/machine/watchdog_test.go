package machine_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/machine"
)

func TestSilentGuest(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)

		began := time.Now()
		w.running().freeze()
		became := func(want machine.State) time.Duration {
			status := w.Status()
			for status.State != want {
				var err error
				if status, err = w.Next(t.Context(), status.Revision); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if took := became(machine.Unresponsive); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("noticed after %v", took)
		}
		if _, err := w.Exec(t.Context(), engine.Command{Args: []string{"1s"}}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Exec: %v", err)
		}
		w.running().thaw()
		if took := became(machine.Running); took > 10*time.Second {
			t.Errorf("its recovery noticed after %v", took)
		}
		if w.boots() != 1 {
			t.Error("a guest that recovered was started again")
		}

		began = time.Now()
		w.running().freeze()
		became(machine.Unresponsive)
		if took := became(machine.Running); took > 35*time.Second || w.boots() != 2 {
			t.Errorf("started again after %v, %d boots", took, w.boots())
		}
	})
}

// A slow guest is not restarted, even after it was silent: its commands would be lost.
func TestSlowGuest(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		w.running().answersAfter(time.Minute)
		time.Sleep(6 * time.Second)
		w.wantState(machine.Unresponsive)
		w.running().answersAfter(3 * time.Second)
		time.Sleep(time.Hour)
		w.wantState(machine.Running)
		if w.boots() != 1 {
			t.Errorf("%d boots", w.boots())
		}
	})
}

// A computer that sleeps for hours in the middle of a ping does not make its guest silent.
func TestSleepIsNotSilence(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		for range 3 {
			time.Sleep(settle)
			w.running().sleeps(8 * time.Hour)
			for range 8 * 60 {
				time.Sleep(time.Minute)
				w.wantState(machine.Running)
			}
		}
		if w.boots() != 1 {
			t.Errorf("%d boots", w.boots())
		}
	})
}

// stall stalls the machine, or resumes it if why is nil.
func (g *fakeGuest) stall(why error) {
	g.mu.Lock()
	g.stalled = why
	g.mu.Unlock()
	if g.thaw(); why != nil {
		g.freeze()
	}
}

func (*fakeGuest) Gateway() *network.Gateway { return nil }

func (g *fakeGuest) Stalled() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stalled
}

// A guest whose machine is stalled by a full disk is never restarted, and the status says why.
// After the stall, it has the usual time to answer.
func TestStalled(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		w.running().stall(fault.Newf(fault.Unavailable, "", "", "the disk is full").Advise("Make room."))
		time.Sleep(6 * time.Second)
		w.wantState(machine.Unresponsive)
		if s := w.Status(); s.Reason != "the disk is full" || s.Advice != "Make room." || s.Cause != machine.CauseHost {
			t.Errorf("%q, %q (%s)", s.Reason, s.Advice, s.Cause)
		}
		if _, err := w.Exec(t.Context(), engine.Command{Args: []string{"1s"}}); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) != "Make room." {
			t.Errorf("Exec: %v (%s)", err, fault.AdviceOf(err))
		}
		time.Sleep(24 * time.Hour)
		w.wantState(machine.Unresponsive)
		w.running().stall(nil)
		w.running().freeze() // it resumes, but is slow
		time.Sleep(10 * time.Second)
		w.running().thaw()
		time.Sleep(settle)
		if w.wantState(machine.Running); w.boots() != 1 {
			t.Errorf("%d boots", w.boots())
		}
		w.running().stall(errors.New("full again"))
		time.Sleep(time.Minute)
		began := time.Now()
		if w.must(w.Stop(t.Context(), by)); time.Since(began) > 6*time.Second {
			t.Errorf("to stop it took %v", time.Since(began))
		}
	})
}

// A machine that ends long after a failed stop leaves the sandbox failed.
func TestLateEnd(t *testing.T) {
	inWorld(t, quiet, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		w.backend.set(func(b *fakeBackend) { b.immortal = true })
		if err := w.Stop(t.Context(), by); fault.KindOf(err) != fault.Execution {
			t.Errorf("Stop: %v", err)
		}
		w.wantState(machine.Failed)
		w.running().die(nil)
		timetest.Wait()
		w.wantState(machine.Failed)
		if s := w.Status(); !s.StartedAt.IsZero() || s.Reason == "" {
			t.Errorf("%+v", s)
		}
		w.backend.set(func(b *fakeBackend) { b.immortal = false })
		w.must(w.Start(t.Context(), by))
	})
}

func TestDeadMachine(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		p, err := w.Exec(t.Context(), engine.Command{Args: []string{"1h"}})
		w.must(err)

		before := time.Now()
		w.running().die(errors.New("killed"))
		if _, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("the command's end: %v", err)
		}
		timetest.Wait()
		w.wantState(machine.Running)
		if took := time.Since(before); took > 0 || w.boots() != 2 {
			t.Errorf("running again after %v, %d boots", took, w.boots())
		}

		time.Sleep(settle)
		w.running().die(nil)
		timetest.Wait()
		w.wantState(machine.Stopped) // it powered itself off
	})
}

// A guest that crashes soon after each start is not restarted forever.
func TestCrashLoopEnds(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		for range 20 {
			w.running().die(errors.New("panic"))
			time.Sleep(time.Minute)
			_ = w.command(t.Context(), machine.Exec) // starts it unless that is refused
		}
		if w.boots() > 3 {
			t.Errorf("%d boots", w.boots())
		}
		w.wantState(machine.Failed)
	})
}

// Neither is one that powers itself off.
func TestPowerOffLoopEnds(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		for range 20 {
			_ = w.command(t.Context(), machine.Exec)
			w.running().die(nil)
			timetest.Wait()
		}
		if w.boots() > 3 {
			t.Errorf("%d boots", w.boots())
		}
		w.wantState(machine.Stopped)
		if err := w.command(t.Context(), machine.Exec); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
			t.Errorf("one more: %v", err)
		}
		w.must(w.Start(t.Context(), by)) // a person always may
	})
}

// A guest that ran for a while forgives earlier short runs.
func TestEarlyEndsAreForgiven(t *testing.T) {
	inWorld(t, quiet, provisioned, func(t *testing.T, w *world) {
		for range 10 {
			for range 2 {
				w.must(w.command(t.Context(), machine.Exec))
				w.running().die(nil)
				timetest.Wait()
			}
			w.must(w.command(t.Context(), machine.Exec))
			time.Sleep(time.Hour)
			w.running().die(errors.New("panic"))
			timetest.Wait()
			if s := w.Status(); s.Failures != 0 {
				t.Fatalf("%d failures are not forgiven", s.Failures)
			}
		}
	})
}

func TestManyCallsWhileTheGuestFreezes(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
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
				p, err := w.Exec(t.Context(), engine.Command{Args: []string{"1s"}})
				if err == nil {
					_, err = p.Wait()
				}
				if kind := fault.KindOf(err); err != nil && kind != fault.Timeout && kind != fault.Unavailable {
					t.Errorf("call %d: %v (%s)", i, err, kind)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took > 35*time.Second {
			t.Errorf("the last call came back after %v", took)
		}
		time.Sleep(30 * time.Second)
		w.wantState(machine.Running) // it was restarted
	})
}

// A guest whose Info hangs, because of a hanging disk or console, but which answers pings is not
// silent.
func TestGuestThatOnlyAnswers(t *testing.T) {
	inWorld(t, `{}`, provisioned, func(t *testing.T, w *world) {
		w.must(w.Start(t.Context(), by))
		time.Sleep(settle)
		timetest.Wait()
		w.running().forget()
		revision := w.Status().Revision
		time.Sleep(time.Hour)
		if s := w.Status(); s.State != machine.Running || s.Revision != revision || w.boots() != 1 {
			t.Errorf("%v, %d changes, %d boots", s.State, s.Revision-revision, w.boots())
		}
	})
}

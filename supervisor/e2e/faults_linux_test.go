//go:build linux

package e2e

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/machine"
)

// everything reports whether to try every combination, which takes minutes.
func everything() bool { return os.Getenv("OSAURUS_FAULTS") == "all" }

// moment is an operation that is in progress during the damage.
type moment struct {
	from  machine.State
	begin func(s *sandbox, ctx context.Context) error // nil for no operation
	ready func(s *sandbox)                            // waits until it is in progress
}

func moments() map[string]moment {
	return map[string]moment{
		"idle": {from: machine.Running},
		"exec": {from: machine.Running, begin: func(s *sandbox, ctx context.Context) error {
			p, err := s.Exec(ctx, engine.Command{Args: []string{"sleep", "4"}, Timeout: 20 * time.Second})
			if err == nil {
				_, err = p.Wait()
			}
			return err
		}, ready: func(s *sandbox) {
			s.t.Helper()
			timetest.Eventually(s.t, "a command runs", func() bool { return s.Status().Commands >= 1 })
		}},
		"crowd": {from: machine.Running, begin: crowd, ready: func(*sandbox) { time.Sleep(pause / 8) }},
		"start": {from: machine.Stopped, begin: func(s *sandbox, ctx context.Context) error { return s.Start(ctx, by) },
			ready: func(s *sandbox) {
				s.becomes(machine.Starting)
				timetest.Eventually(s.t, "a machine starts", func() bool { return len(machines(s.t, os.Getpid())) == 1 })
			}},
		"stop": {from: machine.Running, begin: func(s *sandbox, ctx context.Context) error { return s.Stop(ctx, by) },
			ready: stops},
		"reset": {from: machine.Running, begin: func(s *sandbox, ctx context.Context) error { return s.Reset(ctx, by) },
			ready: stops},
	}
}

// stops waits until a running sandbox is being stopped.
func stops(s *sandbox) {
	s.t.Helper()
	s.must(left(s.t.Context(), s.Machine, machine.Running, machine.Unresponsive))
}

// crowd runs 200 commands at once. Each call returns a result or an error with a kind: a guest
// may refuse some of them, or be too slow on a busy host.
func crowd(s *sandbox, ctx context.Context) error {
	const callers = 200
	var all sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			p, err := s.Exec(ctx, engine.Command{Args: []string{"true"}, Timeout: 10 * time.Second})
			if err == nil {
				_, err = p.Wait()
			}
			errs[i] = err
		})
	}
	all.Wait()
	kinds := map[fault.Kind]int{}
	for _, err := range errs {
		if err == nil {
			kinds["ok"]++
			continue
		}
		kinds[fault.KindOf(err)]++
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind == fault.Execution {
			s.t.Errorf("one of many is told %v (%s)", err, fault.KindOf(err))
		}
	}
	s.t.Logf("%d callers: %v", callers, kinds)
	return nil
}

// TestFaults damages a sandbox during its operations: see damages. Every call must return in
// time, errors must have a kind, the state must be true soon after, a start by hand must work,
// and nothing may be left behind.
func TestFaults(t *testing.T) {
	type cell struct{ damage, moment string }
	// This order needs few starts of machines.
	cells := []cell{
		{"qemu continued", "crowd"}, {"guest continued", "idle"}, {"guest stopped", "idle"},
		{"guest killed", "reset"}, {"qemu stopped", "stop"}, {"qemu killed", "start"},
	}
	if everything() {
		cells = nil
		for _, moment := range []string{"idle", "exec", "crowd", "stop", "start", "reset"} {
			for _, damage := range slices.Sorted(maps.Keys(damages(moment))) {
				cells = append(cells, cell{damage, moment})
			}
		}
	}
	s := newSandbox(t, newHome(t))
	s.must(s.Start(t.Context(), by))
	before := descriptors(t)
	for _, cell := range cells {
		t.Run(cell.damage+" "+cell.moment, func(t *testing.T) {
			began := time.Now()
			here := &sandbox{s.Machine, t, s.home}
			here.endure(damages(cell.moment)[cell.damage], moments()[cell.moment])
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
		})
	}
	timetest.Eventually(s.t, "as many descriptors are open as before", func() bool { return descriptors(t) <= before })
	s.must(s.Stop(t.Context(), by))
	if found := machines(t, os.Getpid()); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

const (
	// callLimit bounds every call. The longest one is a start whose first machine never answers
	// within its 90 s and is started again.
	callLimit = 150 * time.Second
	// truth is how long the state may be wrong. The tests of package machine demand five
	// seconds in virtual time; a host that runs other guests takes longer.
	truth = 30 * time.Second
)

func (s *sandbox) endure(hit damage, m moment) {
	t := s.t
	if m.from == machine.Running {
		s.must(s.Start(t.Context(), by))
	} else {
		s.must(s.Stop(t.Context(), by))
	}
	if hit.arm != nil {
		hit.arm(s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	defer cancel()
	result := make(chan error, 1)
	if m.begin == nil {
		result <- nil
	} else {
		go func() { result <- m.begin(s, ctx) }()
		m.ready(s)
	}
	// A machine that stops may be gone already.
	if found := machines(t, os.Getpid()); len(found) == 0 {
		t.Logf("the machine is gone already")
	} else if hit.hit != nil {
		hit.hit(s)
		s.isTrue()
		if hit.mend != nil {
			time.Sleep(pause)
			timetest.Eventually(s.t, "nothing answers", func() bool { return time.Since(s.Status().AnsweredAt) > pause*3/4 })
			hit.mend(s)
		}
	}
	select {
	case err := <-result:
		f, ok := errors.AsType[*fault.Error](err)
		if err != nil && (!ok || f.Kind == "") {
			t.Errorf("the call's error has no kind: %v", err)
		}
		t.Logf("the call: %v", err)
		if hit.mends && err != nil {
			t.Errorf("a call failed although the damage was repaired in time: %v", err)
		}
	case <-time.After(callLimit + time.Second):
		t.Fatal("the call did not come back")
	}
	s.isTrue()
	if hit.mute && m.begin == nil {
		if took := s.becomes(machine.Unresponsive); took > truth {
			t.Errorf("its silence was noticed after %v", took)
		}
	}
	s.must(s.Start(ctx, by))
	if text := s.run("echo well"); text != "well" {
		t.Errorf("afterwards it says %q", text)
	}
}

// isTrue waits until the state matches the processes.
func (s *sandbox) isTrue() {
	s.t.Helper()
	began := time.Now()
	for {
		status, found := s.Status(), machines(s.t, os.Getpid())
		var is bool
		switch status.State {
		case machine.Running:
			is = len(found) == 1 && time.Since(status.AnsweredAt) < 2*time.Second
		case machine.Unresponsive:
			is = len(found) == 1 && time.Since(status.AnsweredAt) > 4*time.Second
		case machine.Starting, machine.Stopping, machine.Provisioning:
			is = status.Operation != ""
		default:
			is = len(found) == 0
		}
		if is {
			s.t.Logf("%s, true after %v", status.State, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > truth {
			s.t.Fatalf("the sandbox is %s (%s), machines: %v", status.State, status.Reason, found)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// machineGone reports whether a machine has ended.
func machineGone(t *testing.T, pid int) bool {
	t.Helper()
	return !slices.Contains(machines(t, os.Getpid()), pid)
}

// qemuGets sends a signal to the machine, which may have ended if it is being stopped.
func qemuGets(signal syscall.Signal) func(*sandbox) {
	return func(s *sandbox) {
		s.t.Helper()
		pids := machines(s.t, os.Getpid())
		if state := s.Status().State; len(pids) == 0 && (state == machine.Running || state == machine.Starting) {
			s.t.Fatalf("the sandbox is %s without a machine", state)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
				s.t.Fatalf("kill -%d %d: %v", signal, pid, err)
			}
		}
	}
}

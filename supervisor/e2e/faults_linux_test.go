//go:build linux

package e2e

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/supervisor"
)

// everything says that the whole of the matrix is to be tried, which takes
// minutes, and not only the cells that differ most.
func everything() bool { return os.Getenv("OSAURUS_FAULTS") == "all" }

// strike does harm to a sandbox, and mends it if there is a mend.
type strike struct {
	name string
	hit  func(s *sandbox)
	mend func(s *sandbox) // nil: the harm stays
	mute bool             // the guest does not answer any more
}

// pause is how long harm lasts that is mended before anybody should act on it.
const pause = 2 * time.Second

func qemuGets(signal syscall.Signal) func(*sandbox) {
	return func(s *sandbox) { send(s.t, machine(s.t, os.Getpid()), signal) }
}

func later(signal syscall.Signal) func(*sandbox) {
	return func(s *sandbox) { time.Sleep(pause); qemuGets(signal)(s) }
}

// guestRuns has the guest do something to itself.
func guestRuns(script string) func(*sandbox) {
	return func(s *sandbox) {
		_, err := s.Exec(s.t.Context(), guest.Command{Args: []string{"sh", "-c", script}})
		s.must(err)
		time.Sleep(pause / 4) // until it has happened
	}
}

// guestPanics has the guest's kernel give up, and returns when its machine has.
func guestPanics(s *sandbox) {
	pid := machine(s.t, os.Getpid())
	_, _ = s.Exec(s.t.Context(), guest.Command{Args: []string{"sh", "-c", "echo c > /proc/sysrq-trigger"}}) // it may not live to say that it runs
	s.until("the machine has ended", func() bool { return !slices.Contains(machines(s.t, os.Getpid()), pid) })
}

// The guest's program is PID 1, which its kernel protects from signals of its
// own processes: killed, it takes the kernel with it, and so does a panic;
// stopped, it is as if it were frozen.
const (
	freezes = "cd /sys/fs/cgroup && mkdir -p ice && echo 1 > ice/cgroup.procs && echo 1 > ice/cgroup.freeze; sleep "
	thaws   = "; echo 0 > ice/cgroup.freeze"
)

// moment is what is under way when harm is done.
type moment struct {
	from  supervisor.State
	begin func(s *sandbox, ctx context.Context) error // nil: nothing is
	ready func(s *sandbox)                            // it is under way
}

func moments() map[string]moment {
	return map[string]moment{
		"idle": {from: supervisor.Running},
		"exec": {from: supervisor.Running, begin: func(s *sandbox, ctx context.Context) error {
			p, err := s.Exec(ctx, guest.Command{Args: []string{"sleep", "4"}, Timeout: 20 * time.Second})
			if err == nil {
				_, err = p.Wait()
			}
			return err
		}, ready: func(s *sandbox) {
			s.t.Helper()
			s.until("a command runs", func() bool { return s.Status().Commands == 1 })
		}},
		"start": {from: supervisor.Stopped, begin: func(s *sandbox, ctx context.Context) error { return s.Start(ctx, by) },
			ready: func(s *sandbox) {
				s.becomes(supervisor.Starting)
				s.until("a machine starts", func() bool { return len(machines(s.t, os.Getpid())) == 1 })
			}},
		"stop": {from: supervisor.Running, begin: func(s *sandbox, ctx context.Context) error { return s.Stop(ctx, by) },
			ready: func(s *sandbox) { s.becomes(supervisor.Stopping) }},
		"reset": {from: supervisor.Running, begin: func(s *sandbox, ctx context.Context) error { return s.Reset(ctx, by) },
			ready: func(s *sandbox) { s.becomes(supervisor.Stopping) }},
	}
}

// until waits for something that takes a moment.
func (s *sandbox) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not so: %s", what)
		}
	}
}

// TestFaults does all sorts of harm at all sorts of moments. Every call comes
// back within its deadline and with a kind if it fails, the state is true soon
// after, a start by hand works, and nothing is left behind.
func TestFaults(t *testing.T) {
	kill := strike{name: "qemu killed", hit: qemuGets(syscall.SIGKILL)}
	stop := strike{name: "qemu stopped", hit: qemuGets(syscall.SIGSTOP), mute: true}
	cont := strike{name: "qemu stopped and continued", hit: qemuGets(syscall.SIGSTOP), mend: later(syscall.SIGCONT)}
	crash := strike{name: "guest panics", hit: guestPanics}
	freeze := strike{name: "guest frozen", hit: guestRuns(freezes + "1000"), mute: true}
	thaw := strike{name: "guest frozen and thawed", hit: guestRuns(freezes + "3" + thaws)}
	type cell struct {
		strike strike
		moment string
	}
	// Those that differ most.
	cells := []cell{{cont, "idle"}, {thaw, "exec"}, {kill, "start"}, {stop, "idle"}, {stop, "stop"}, {crash, "idle"}}
	all := []cell{
		// In an order in which few machines need to be started.
		{cont, "idle"}, {cont, "exec"}, {thaw, "idle"}, {thaw, "exec"},
		{cont, "stop"}, {cont, "start"}, {cont, "reset"},
		{kill, "idle"}, {kill, "exec"}, {kill, "stop"}, {kill, "start"}, {kill, "reset"},
		{stop, "idle"}, {stop, "exec"}, {stop, "stop"}, {stop, "start"}, {stop, "reset"},
		{crash, "idle"}, {crash, "exec"}, {freeze, "idle"}, {freeze, "exec"},
	}
	if everything() {
		cells = all
	}
	s := newSandbox(t, newHome(t))
	for _, cell := range cells {
		t.Run(cell.strike.name+" "+cell.moment, func(t *testing.T) {
			began := time.Now()
			here := &sandbox{s.Supervisor, t}
			here.endure(cell.strike, moments()[cell.moment], cell.moment)
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
		})
	}
	s.must(s.Stop(t.Context(), by))
	if found := machines(t, os.Getpid()); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// callLimit is the longest that a call may take whose machine was stopped: a
// stop, which is gentle at first, and then a boot.
const callLimit = 90 * time.Second

func (s *sandbox) endure(hit strike, m moment, name string) {
	t := s.t
	if m.from == supervisor.Running {
		s.must(s.Start(t.Context(), by))
	} else {
		s.must(s.Stop(t.Context(), by))
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
	// What is being stopped may be gone before it can be hit, which is fine too.
	if found := machines(t, os.Getpid()); len(found) == 0 {
		t.Logf("there was nothing left to hit")
	} else {
		hit.hit(s)
		if hit.mend != nil {
			hit.mend(s)
		} else if name == "start" && hit.name == "qemu stopped" {
			s.must(s.Stop(ctx, by)) // it need not be waited for until it gives up
		}
	}
	select {
	case err := <-result:
		f, ok := errors.AsType[*fault.Error](err)
		if err != nil && (!ok || f.Kind == "") {
			t.Errorf("the call's error has no kind: %v", err)
		}
		t.Logf("the call: %v", err)
		if hit.mend != nil && err != nil {
			t.Errorf("what was mended in time failed: %v", err)
		}
	case <-time.After(callLimit + time.Second):
		t.Fatal("the call did not come back")
	}
	s.isTrue()
	if hit.mute && s.Status().State == supervisor.Running && m.begin == nil {
		if took := s.becomes(supervisor.Unresponsive); took > 8*time.Second {
			t.Errorf("its silence was noticed after %v", took)
		}
	}
	s.must(s.Start(ctx, by))
	if text := s.run("echo well"); text != "well" {
		t.Errorf("afterwards it says %q", text)
	}
}

// isTrue waits until the state is what is the case, which takes a few seconds
// at most.
func (s *sandbox) isTrue() {
	s.t.Helper()
	began := time.Now()
	for {
		status, found := s.Status(), machines(s.t, os.Getpid())
		var is bool
		switch status.State {
		case supervisor.Running:
			is = len(found) == 1 && time.Since(status.AnsweredAt) < 2*time.Second
		case supervisor.Unresponsive:
			is = len(found) == 1 && time.Since(status.AnsweredAt) > 5*time.Second
		case supervisor.Starting, supervisor.Stopping:
			is = status.Operation != ""
		default:
			is = len(found) == 0
		}
		if is {
			s.t.Logf("%s, true after %v", status.State, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > 8*time.Second {
			s.t.Fatalf("the sandbox is %s (%s), machines: %v", status.State, status.Reason, found)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

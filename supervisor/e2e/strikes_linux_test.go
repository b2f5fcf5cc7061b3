//go:build linux

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
)

// strike does harm to a sandbox, and mends it if there is a mend.
type strike struct {
	arm   func(s *sandbox) // prepares it, before anything is under way
	hit   func(s *sandbox) // nil: what was armed does it
	mend  func(s *sandbox) // a pause later; nil: the harm stays, or mends itself
	mends bool             // it is mended
	mute  bool             // the guest does not answer any more
}

// pause is how long harm lasts that is mended before anybody should act on it.
const pause = 2 * time.Second

// The guest's program is PID 1, which its kernel protects from signals of its
// own processes. Killed, it would take the kernel with it: so the kernel
// panics. Stopped, it would be as it is in a frozen cgroup.
const (
	panics  = "echo c > /proc/sysrq-trigger"
	freezes = "cd /sys/fs/cgroup && mkdir -p ice && echo 1 > ice/cgroup.procs && echo 1 > ice/cgroup.freeze"
	thaws   = "sleep 2; echo 0 > ice/cgroup.freeze"
	// thawsWhenTold waits for a file, which the host serves without the guest's program.
	thawsWhenTold = "until rm /workspace/shared/thaw 2>/dev/null; do sleep 0.1; done; echo 0 > ice/cgroup.freeze"
)

// strikes are all sorts of harm: each of what a sandbox is made of is killed,
// stopped, and stopped and continued. (The daemon is in TestDaemon.) How a guest
// is harmed depends on the moment: by itself while it runs, as soon as its
// commands are told to end while it stops, and from outside while it boots.
func strikes(m *meddler, moment string) map[string]strike {
	all := map[string]strike{
		"qemu killed":    {hit: qemuGets(syscall.SIGKILL)},
		"qemu stopped":   {hit: qemuGets(syscall.SIGSTOP), mute: true},
		"qemu continued": {hit: qemuGets(syscall.SIGSTOP), mend: qemuGets(syscall.SIGCONT), mends: true},
	}
	switch moment {
	case "start":
		all["guest killed"] = strike{arm: func(*sandbox) { m.next("rdinit=/none") }}
		all["guest stopped"] = strike{hit: m.pause}
		all["guest continued"] = strike{hit: m.pause, mend: m.resume, mends: true}
	case "stop", "reset":
		all["guest killed"] = strike{arm: guestRuns(whenTold(panics))}
		all["guest stopped"] = strike{arm: guestRuns(whenTold(freezes))}
		all["guest continued"] = strike{arm: guestRuns(whenTold(freezes + "; " + thaws)), mends: true}
	default:
		all["guest killed"] = strike{hit: guestPanics}
		all["guest stopped"] = strike{hit: guestRuns(begun + freezes + "; sleep 1000"), mute: true}
		all["guest continued"] = strike{hit: guestRuns(begun + freezes + "; " + thawsWhenTold), mend: tellsToThaw, mends: true}
	}
	return all
}

// whenTold is a script that does something when it is told to end.
func whenTold(script string) string {
	return "trap '" + script + "' TERM; " + begun + "sleep 1000 & wait; sleep 5"
}

// begun is how a script says that it has come so far.
const begun = "echo begun; "

// said is a writer that knows whether anything was written.
type said struct{ atomic.Bool }

func (s *said) Write(b []byte) (int, error) {
	s.Store(true)
	return len(b), nil
}

// guestRuns has the guest do something to itself, and returns when it has begun.
func guestRuns(script string) func(*sandbox) {
	return func(s *sandbox) {
		var hasBegun said
		_, err := s.Exec(s.t.Context(), engine.Command{Args: []string{"sh", "-c", script}, Stdout: &hasBegun})
		s.must(err)
		timetest.Eventually(s.t, "what harms the guest runs", hasBegun.Load)
	}
}

func tellsToThaw(s *sandbox) {
	s.must(os.WriteFile(filepath.Join(s.home.SharedFolder(), "thaw"), nil, 0o600))
}

// guestPanics has the guest's kernel give up, and returns when its machine has.
func guestPanics(s *sandbox) {
	pid := qemuPID(s.t, os.Getpid())
	_, _ = s.Exec(s.t.Context(), engine.Command{Args: []string{"sh", "-c", panics}}) // it may not live to say that it runs
	timetest.Eventually(s.t, "the machine has ended", func() bool { return machineGone(s.t, pid) })
}

// meddler is a driver whose machines can be harmed while they boot.
type meddler struct {
	vm.Driver

	mu   sync.Mutex
	args []string // of the next machine's kernel
	last vm.Machine
}

// New implements vm.Driver.
func (m *meddler) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	m.mu.Lock()
	cfg.KernelArgs = append(cfg.KernelArgs, m.args...)
	m.args = nil
	m.mu.Unlock()
	made, err := m.Driver.New(ctx, cfg)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = made
	return made, err
}

// next has the next machine's kernel get an argument.
func (m *meddler) next(arg string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.args = []string{arg}
}

func (m *meddler) machine() vm.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// pause stops all of the guest and not its QEMU.
func (m *meddler) pause(s *sandbox) {
	s.t.Helper()
	timetest.Eventually(s.t, "its processors run", func() bool { return m.machine().State() == vm.Running })
	s.must(m.machine().Pause(s.t.Context()))
}

func (m *meddler) resume(s *sandbox) {
	s.t.Helper()
	s.must(m.machine().Resume(s.t.Context()))
}

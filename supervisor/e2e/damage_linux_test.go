//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
)

// damage breaks a part of a sandbox, and may repair it.
type damage struct {
	arm   func(s *sandbox) // prepares the damage before the operation begins
	hit   func(s *sandbox) // nil if arm is enough
	mend  func(s *sandbox) // repairs it after a pause; nil if nothing does, or the guest itself
	mends bool             // it is repaired
	mute  bool             // the guest becomes silent
}

// pause is the duration of damage that is repaired before the watchdog acts.
const pause = 2 * time.Second

// Processes in the guest cannot signal its PID 1. A kernel panic stands for killing it, and
// a frozen cgroup for stopping it.
const (
	panics  = "echo c > /proc/sysrq-trigger"
	freezes = "cd /sys/fs/cgroup && mkdir -p ice && echo 1 > ice/cgroup.procs && echo 1 > ice/cgroup.freeze"
	thaws   = "sleep 2; echo 0 > ice/cgroup.freeze"
	// thawsWhenTold waits for a file in the share, which works without the guest's program.
	thawsWhenTold = "until rm /workspace/shared/thaw 2>/dev/null; do sleep 0.1; done; echo 0 > ice/cgroup.freeze"
)

// damages lists the ways to kill, stop, and stop and continue QEMU and the guest. (TestDaemon
// does the same to the daemon.) A running guest damages itself, and a stopping one does so when its
// commands get SIGTERM. A booting guest is damaged through its QEMU.
func damages(moment string) map[string]damage {
	all := map[string]damage{
		"qemu killed":    {hit: qemuGets(syscall.SIGKILL)},
		"qemu stopped":   {hit: qemuGets(syscall.SIGSTOP), mute: true},
		"qemu continued": {hit: qemuGets(syscall.SIGSTOP), mend: qemuGets(syscall.SIGCONT), mends: true},
	}
	switch moment {
	case "start":
	case "stop", "reset":
		all["guest killed"] = damage{arm: guestRuns(whenTold(panics))}
		all["guest stopped"] = damage{arm: guestRuns(whenTold(freezes))}
		all["guest continued"] = damage{arm: guestRuns(whenTold(freezes + "; " + thaws)), mends: true}
	default:
		all["guest killed"] = damage{hit: guestPanics}
		all["guest stopped"] = damage{hit: guestRuns(begun + freezes + "; sleep 1000"), mute: true}
		all["guest continued"] = damage{hit: guestRuns(begun + freezes + "; " + thawsWhenTold), mend: tellsToThaw, mends: true}
	}
	return all
}

// whenTold returns a script that runs another one at SIGTERM.
func whenTold(script string) string {
	return "trap '" + script + "' TERM; " + begun + "sleep 1000 & wait; sleep 5"
}

// begun makes a script report that it runs.
const begun = "echo begun; "

// said is a writer that records whether anything was written.
type said struct{ atomic.Bool }

func (s *said) Write(b []byte) (int, error) {
	s.Store(true)
	return len(b), nil
}

// guestRuns runs a script in the guest and returns when it has begun.
func guestRuns(script string) func(*sandbox) {
	return func(s *sandbox) {
		var hasBegun said
		_, err := s.Exec(s.t.Context(), engine.Command{Args: []string{"sh", "-c", script}, Stdout: &hasBegun})
		s.must(err)
		timetest.Eventually(s.t, "the script runs", hasBegun.Load)
	}
}

func tellsToThaw(s *sandbox) {
	s.must(os.WriteFile(filepath.Join(s.home.SharedFolder(), "thaw"), nil, 0o600))
}

// guestPanics makes the guest's kernel panic and waits for the end of its machine.
func guestPanics(s *sandbox) {
	pid := qemuPID(s.t, os.Getpid())
	_, _ = s.Exec(s.t.Context(), engine.Command{Args: []string{"sh", "-c", panics}}) // the guest may end before it answers
	timetest.Eventually(s.t, "the machine has ended", func() bool { return machineGone(s.t, pid) })
}

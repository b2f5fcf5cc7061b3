package guesttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// hogCases are what bob uses up. Alice goes on working, and he is told why he does
// not.
func hogCases() []roomCase {
	hogFor := func(within time.Duration, script string, reason func(engine.Exit) bool) func(context.Context, *testing.T, *agent, *agent) {
		return func(ctx context.Context, t *testing.T, alice, bob *agent) {
			runHog(ctx, t, alice, bob, within, script, reason)
		}
	}
	hog := func(script string, reason func(engine.Exit) bool) func(context.Context, *testing.T, *agent, *agent) {
		return hogFor(hogTime, script, reason)
	}
	oom := func(e engine.Exit) bool { return e.OOM }
	full := func(e engine.Exit) bool { return e.Quota && e.Status() != 0 }
	return []roomCase{
		{"Forks", hog("exec /tmp/intruder hog-forks 2", func(e engine.Exit) bool { return e.PIDs })},
		{"Memory", hog("exec /tmp/intruder hog-memory", oom)},
		{"SharedMemory", hog("for i in 1 2 3 4; do head -c 30000000 /dev/zero > /dev/shm/$i; done; /tmp/intruder hog-memory", oom)},
		{"Disk", hog("exec /tmp/intruder hog-disk /tmp/big", full)},
		{"Files", hog("mkdir -p /tmp/many && exec /tmp/intruder hog-files /tmp/many", full)},
		{"Descriptors", hogFor(8*time.Second, "exec /tmp/intruder hog-descriptors", func(e engine.Exit) bool { return e.OOM || e.PIDs })},
		{"Processor", hog("exec /tmp/intruder hog-cpu 2", func(e engine.Exit) bool { return e.Status() == 0 })},
		{"Live", liveLimits},
		{"Connections", connections},
	}
}

// hogLimits leave bob little, so that he is soon at them.
func hogLimits() engine.Limits {
	return engine.Limits{Memory: 96 << 20, PIDs: 64, Disk: 48 << 20, DiskFiles: 1500}
}

// hogTime ends a hog that does not end by itself, on however slow a computer.
const hogTime = 2 * time.Minute

func runHog(ctx context.Context, t *testing.T, alice, bob *agent, within time.Duration, script string, reason func(engine.Exit) bool) {
	c := bob.house.Client
	if err := c.SetRoomLimits(ctx, bob.User, hogLimits()); err != nil {
		t.Fatal(err)
	}
	shortBeside(ctx, t, alice, answersWithin, func() waits { return besideHog(ctx, t, alice, bob, within, script, reason) })
	// He can clean up and go on.
	if out, exit := bob.run(ctx, t, cleanUp); out != "fine" {
		t.Errorf("bob afterwards: %+v %s", exit, out)
	}
	if err := c.SetRoomLimits(ctx, bob.User, engine.Limits{}); err != nil {
		t.Error(err)
	}
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
}

// besideHog says how long alice waits for her commands before bob runs his script, and
// while he does, within a time. What bob is told must be right each time.
func besideHog(ctx context.Context, t *testing.T, alice, bob *agent, within time.Duration, script string, reason func(engine.Exit) bool) waits {
	t.Helper()
	alone := latencies(ctx, t, alice, forAMoment)
	// Not from the share, which would be what is measured.
	if out, exit := bob.run(ctx, t, "cp intruder /tmp"); exit.Status() != 0 {
		t.Fatal(out)
	}
	p, err := bob.room().Exec(ctx, engine.Command{Args: sh(script), Timeout: within, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	took := latencies(ctx, t, alice, func(n int) bool {
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	exit, err := p.Wait()
	if exit.TimedOut && !reason(exit) && within < hogTime { // on a slow computer he has not come far
		bob.run(ctx, t, cleanUp)
		return besideHog(ctx, t, alice, bob, 2*within, script, reason)
	}
	if err != nil || !reason(exit) {
		t.Errorf("bob is told %+v, %v", exit, err)
	}
	w := waits{alone, took}
	t.Logf("alice alone: median %v; beside bob: median %v, p99 %v of %d; bob: %+v", percentile(alone, 50), percentile(took, 50), w.worst(), len(took), exit)
	bob.run(ctx, t, cleanUp)
	return w
}

// cleanUp is what bob does when his room is full.
const cleanUp = "rm -rf /tmp/* /dev/shm/* 2>/dev/null; echo fine"

// liveLimits: what is set counts at once, also for what runs.
func liveLimits(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.house.Client
	bob.begin(ctx, t, "sleep 1000")
	if err := c.SetRoomLimits(ctx, bob.User, engine.Limits{PIDs: 4, CPUMaxMillis: 500, CPUWeight: 50, IO: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	use, err := c.RoomUsages(ctx, bob.User)
	if err != nil || len(use) != 1 || use[0].Limits.PIDs != 4 || use[0].Limits.CPUMaxMillis != 500 {
		t.Errorf("%+v %v", use, err)
	}
	out, exit := bob.run(ctx, t, "sleep 100 & sleep 100 & sleep 100 & sleep 100 & echo end")
	if !exit.PIDs {
		t.Errorf("%+v %s", exit, out)
	}
	if got := output(ctx, t, c, "cd /sys/fs/cgroup/rooms/agent-bob; cat cpu.max cpu.weight pids.max memory.swap.max 2>/dev/null || true; cat io.max"); !strings.HasPrefix(got, "50000 100000\n50\n4") || !strings.Contains(got, "rbps=10485760") {
		t.Errorf("the kernel has %s", got)
	}
	if got := output(ctx, t, c, "cat /sys/fs/cgroup/rooms/.init/cpu.max"); strings.HasPrefix(got, "max") {
		t.Errorf("the last bound is taken away with bob's, for which the kernel is patched: %s", got)
	}
	if err := c.SetRoomLimits(ctx, bob.User, engine.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetRoomLimits(ctx, "agent-nobody", engine.Limits{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("limits of nobody: %v", err)
	}
}

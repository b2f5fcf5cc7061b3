package guesttest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

// hogCases are what bob uses up. Alice goes on working, and he is told why he does
// not.
func hogCases() []roomCase {
	hog := func(script string, reason func(guest.Exit) bool) func(context.Context, *testing.T, *agent, *agent) {
		return func(ctx context.Context, t *testing.T, alice, bob *agent) { runHog(ctx, t, alice, bob, script, reason) }
	}
	oom := func(e guest.Exit) bool { return e.OOM }
	full := func(e guest.Exit) bool { return e.Quota && e.Status() != 0 }
	return []roomCase{
		{"Forks", hog("exec /tmp/intruder hog-forks 8", func(e guest.Exit) bool { return e.PIDs })},
		{"Memory", hog("exec /tmp/intruder hog-memory", oom)},
		{"SharedMemory", hog("for i in 1 2 3 4 5 6 7 8; do head -c 30000000 /dev/zero > /dev/shm/$i; done; /tmp/intruder hog-memory", oom)},
		{"Disk", hog("exec /tmp/intruder hog-disk /tmp/big", full)},
		{"Files", hog("mkdir -p /tmp/many && exec /tmp/intruder hog-files /tmp/many", full)},
		{"Descriptors", hog("exec /tmp/intruder hog-descriptors 5", func(e guest.Exit) bool { return e.OOM || e.PIDs })},
		{"Processor", hog("exec /tmp/intruder hog-cpu 5", func(e guest.Exit) bool { return e.Status() == 0 })},
		{"Live", liveLimits},
		{"Connections", connections},
	}
}

// hogLimits leave bob little, so that he is soon at them.
func hogLimits() guest.Limits {
	return guest.Limits{Memory: 96 << 20, PIDs: 64, Disk: 48 << 20, DiskFiles: 1500}
}

const (
	// answersWithin is what alice's commands may take beside bob at his worst, and
	// where the processor is emulated, as a multiple of what they take without him.
	answersWithin = time.Second
	slower        = 20
	// hogTime ends a hog that does not end by itself, on however slow a computer.
	hogTime = 2 * time.Minute
	// fewTries are enough for one in which the host has nothing else to do. A wall
	// that is missing is missing in all of them.
	fewTries = 5
)

func runHog(ctx context.Context, t *testing.T, alice, bob *agent, script string, reason func(guest.Exit) bool) {
	c := bob.house.Client
	if err := c.SetRoomLimits(ctx, bob.User, hogLimits()); err != nil {
		t.Fatal(err)
	}
	// Others may use the host too, for a moment. It is one of a few tries that must be
	// quick; what bob is told must be right each time.
	for try := 1; ; try++ {
		waited, limit := besideHog(ctx, t, alice, bob, script, reason)
		if waited <= limit {
			break
		}
		if try == fewTries {
			t.Errorf("alice waited %v, more than %v", waited, limit)
			break
		}
	}
	// He can clean up and go on.
	if out, exit := bob.run(ctx, t, cleanUp); out != "fine" {
		t.Errorf("bob afterwards: %+v %s", exit, out)
	}
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{}); err != nil {
		t.Error(err)
	}
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
}

// besideHog says how long alice waits for her commands while bob runs his script, and
// how long she may.
func besideHog(ctx context.Context, t *testing.T, alice, bob *agent, script string, reason func(guest.Exit) bool) (waited, limit time.Duration) {
	t.Helper()
	quiet := latencies(ctx, t, alice, func(n int) bool { return n < 10 })
	// Not from the share, which would be what is measured.
	if out, exit := bob.run(ctx, t, "cp intruder /tmp"); exit.Status() != 0 {
		t.Fatal(out)
	}
	p, err := bob.house.Client.Exec(ctx, guest.Command{Args: sh(script), Room: bob.User, Timeout: hogTime, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	loud := latencies(ctx, t, alice, func(n int) bool {
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	exit, err := p.Wait()
	if err != nil || !reason(exit) {
		t.Errorf("bob is told %+v, %v", exit, err)
	}
	median, worst := quiet[len(quiet)/2], loud[len(loud)*99/100]
	t.Logf("alice alone: median %v; beside bob: median %v, p99 %v of %d; bob: %+v", median, loud[len(loud)/2], worst, len(loud), exit)
	bob.run(ctx, t, cleanUp)
	return worst, max(answersWithin, slower*median)
}

// cleanUp is what bob does when his room is full.
const cleanUp = "rm -rf /tmp/* /dev/shm/* 2>/dev/null; echo fine"

// latencies are how long alice's commands take, sorted.
func latencies(ctx context.Context, t *testing.T, a *agent, more func(int) bool) []time.Duration {
	t.Helper()
	var took []time.Duration
	for more(len(took)) {
		began := time.Now()
		if _, exit := a.command(ctx, t, guest.Command{Args: []string{"true"}}); exit.Status() != 0 {
			t.Fatalf("alice's command: %+v", exit)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

// liveLimits: what is set counts at once, also for what runs.
func liveLimits(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.house.Client
	bob.begin(ctx, t, "sleep 1000")
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{PIDs: 4, CPUMaxMillis: 500, CPUWeight: 50, IO: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	use, err := c.RoomUsages(ctx, bob.User)
	if err != nil || len(use) != 1 || use[0].Limits.PIDs != 4 || use[0].Limits.CPUMaxMillis != 500 {
		t.Errorf("%+v %v", use, err)
	}
	out, exit := bob.run(ctx, t, "sleep 1 & sleep 1 & sleep 1 & sleep 1 & wait; echo end")
	if !exit.PIDs {
		t.Errorf("%+v %s", exit, out)
	}
	if got := output(ctx, t, c, "cd /sys/fs/cgroup/rooms/agent-bob; cat cpu.max cpu.weight pids.max memory.swap.max 2>/dev/null || true; cat io.max"); !strings.HasPrefix(got, "50000 100000\n50\n4") || !strings.Contains(got, "rbps=10485760") {
		t.Errorf("the kernel has %s", got)
	}
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetRoomLimits(ctx, "agent-nobody", guest.Limits{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("limits of nobody: %v", err)
	}
}

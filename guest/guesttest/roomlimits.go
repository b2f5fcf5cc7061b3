package guesttest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// hogCases use up what bob may have. Alice's commands still run, and the exit names the limit.
func hogCases() []roomCase {
	hog := func(script string, met func(engine.Exit) bool) func(context.Context, *testing.T, *agent, *agent) {
		return func(ctx context.Context, t *testing.T, alice, bob *agent) { runHog(ctx, t, alice, bob, script, met) }
	}
	oom := func(e engine.Exit) bool { return e.OOM }
	full := func(e engine.Exit) bool { return e.Quota && e.Status() != 0 }
	return []roomCase{
		{"Forks", hog("exec /tmp/intruder hog-forks 2", func(e engine.Exit) bool { return e.PIDs })},
		{"Memory", hog("exec /tmp/intruder hog-memory", oom)},
		{"SharedMemory", hog("for i in 1 2 3 4; do head -c 30000000 /dev/zero > /dev/shm/$i; done; /tmp/intruder hog-memory", oom)},
		{"Disk", hog("exec /tmp/intruder hog-disk /tmp/big", full)},
		{"Files", hog("mkdir -p /tmp/many && exec /tmp/intruder hog-files /tmp/many", full)},
		{"Descriptors", hog("exec /tmp/intruder hog-descriptors", func(e engine.Exit) bool { return e.OOM || e.PIDs })},
		{"Processor", hog("exec /tmp/intruder hog-cpu 2", func(e engine.Exit) bool { return e.Status() == 0 })},
		{"Live", liveLimits},
	}
}

// hogTime bounds a hog. Under emulation it can take long to reach a limit.
const hogTime = 2 * time.Minute

// runHog runs a script of bob's that uses up what his low limits allow.
func runHog(ctx context.Context, t *testing.T, alice, bob *agent, script string, met func(engine.Exit) bool) {
	bob.limit(ctx, t, engine.Limits{Memory: 96 << 20, PIDs: 64, Disk: 48 << 20, DiskFiles: 1500})
	// Not from the share, whose speed is not of interest here.
	if out, exit := bob.run(ctx, t, "cp intruder /tmp"); exit.Status() != 0 {
		t.Fatal(out)
	}
	exit, err := beside(ctx, t, alice, func() engine.Process {
		p, err := bob.room().Exec(ctx, engine.Command{Args: sh(script), Timeout: hogTime, Grace: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}).Wait()
	if err != nil || !met(exit) {
		t.Errorf("bob's command ended with %+v, %v", exit, err)
	}
	if out, exit := bob.run(ctx, t, "rm -rf /tmp/* /dev/shm/* 2>/dev/null; echo fine"); out != "fine" {
		t.Errorf("bob cannot clean up: %+v %s", exit, out)
	}
	bob.limit(ctx, t, engine.Limits{})
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
}

// beside starts a command of bob's and checks that it does not hold up alice's commands or the
// guest's answers while it runs.
func beside(ctx context.Context, t *testing.T, alice *agent, start func() engine.Process) engine.Process {
	t.Helper()
	const short, slower = time.Second, 10 // at least allowed; times as long as without bob
	alone := median(ctx, t, alice, func(n int) bool { return n < 10 })
	p := start()
	took := median(ctx, t, alice, func(n int) bool {
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	if most := max(short, slower*alone); took > most {
		t.Errorf("alice's commands take %v, more than %v", took, most)
	}
	return p
}

// median returns how long a command of alice's and an answer of the guest typically take. It
// repeats them while more returns true.
func median(ctx context.Context, t *testing.T, alice *agent, more func(n int) bool) time.Duration {
	t.Helper()
	var took []time.Duration
	for more(len(took)) {
		began := time.Now()
		if out, exit := alice.run(ctx, t, "true"); exit.Status() != 0 {
			t.Fatalf("alice's command: %+v %s", exit, out)
		}
		if err := alice.suite.Client.Ping(ctx); err != nil {
			t.Error(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func (a *agent) limit(ctx context.Context, t *testing.T, l engine.Limits) {
	t.Helper()
	a.Limits = l
	a.ensure(ctx, t)
}

// liveLimits changes limits of a room with a running command.
func liveLimits(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.suite.Client
	bob.begin(ctx, t, "sleep 1000")
	bob.limit(ctx, t, engine.Limits{PIDs: 4, CPUMaxMillis: 500, CPUWeight: 50, IO: 10 << 20})
	use, err := c.RoomUsages(ctx, bob.User)
	if err != nil || len(use) != 1 || use[0].Limits.PIDs != 4 || use[0].Limits.CPUMaxMillis != 500 {
		t.Errorf("%+v %v", use, err)
	}
	out, exit := bob.run(ctx, t, "sleep 100 & sleep 100 & sleep 100 & sleep 100 & echo end")
	if !exit.PIDs {
		t.Errorf("%+v %s", exit, out)
	}
	if got := output(ctx, t, c, "cd /sys/fs/cgroup/rooms/agent-bob; cat cpu.max cpu.weight pids.max io.max"); !strings.HasPrefix(got, "50000 100000\n50\n4") || !strings.Contains(got, "rbps=10485760") {
		t.Errorf("the kernel has %s", got)
	}
	if got := output(ctx, t, c, "cat /sys/fs/cgroup/rooms/.init/cpu.max"); strings.HasPrefix(got, "max") {
		t.Errorf("no CPU limit is left in use, so the kernel would patch its code: %s", got)
	}
	bob.limit(ctx, t, engine.Limits{})
}

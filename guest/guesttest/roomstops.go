package guesttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// stopCases are how bob makes his own commands slow to start. Nobody else waits for
// them.
func stopCases() []roomCase {
	return []roomCase{{"Stopping", attackStop}, {"Starving", attackStarve}}
}

// unmovedWithin is what alice's commands and the guest's own answers may take while
// commands of bob's cannot start; where the processor is emulated it is a multiple
// of what her commands take without him.
const unmovedWithin = 2 * time.Second

// attackStop: a command is its agent's, who may stop it, before it has become its
// program. It hurts nobody but him.
func attackStop(ctx context.Context, t *testing.T, alice, bob *agent) {
	const seconds = 3
	// Each of these programs is the next one's: that takes a while, and then fails.
	const last = 5
	home := bob.onHost()
	for i := 1; i <= last; i++ {
		text := fmt.Sprintf("#!%s/s%d\n", bob.Home, i+1)
		if i == last {
			text = ""
		}
		path := filepath.Join(home, fmt.Sprintf("s%d", i))
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}
	if out, exit := bob.run(ctx, t, "cp /bin/true /tmp/leased"); exit.Status() != 0 {
		t.Fatal(out)
	}
	long := strings.Repeat("x", 100_000)
	slow := []string{bob.Home + "/s1", long, long, long}
	leased := []string{"/tmp/leased"}
	beside(ctx, t, alice, bob, engine.Command{Args: []string{"./intruder", "stop", fmt.Sprint(seconds), "/tmp/leased"}}, "stopping",
		engine.Limits{}, slow, slow, slow, slow, slow, slow, leased, leased)
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
	if out, exit := bob.run(ctx, t, "echo fine"); out != "fine" {
		t.Errorf("bob afterwards: %+v %s", exit, out)
	}
}

// attackStarve: what bob's commands wait for before they have become their programs
// is their own share of the processor, and only they wait.
func attackStarve(ctx context.Context, t *testing.T, alice, bob *agent) {
	const hundredth = 10
	idle := []string{"true"}
	beside(ctx, t, alice, bob, engine.Command{Args: sh("echo spinning; while :; do :; done"), Timeout: 3 * time.Second, Grace: 100 * time.Millisecond},
		"spinning", engine.Limits{CPUMaxMillis: hundredth}, idle, idle, idle, idle, idle, idle)
}

// beside has alice work, and the guest answer, while bob runs what makes his own
// commands slow to start, and starts these; then are his limits meanwhile.
func beside(ctx context.Context, t *testing.T, alice, bob *agent, trick engine.Command, begun string, then engine.Limits, slow ...[]string) {
	t.Helper()
	shortBeside(ctx, t, alice, unmovedWithin, func() waits { return besideSlow(ctx, t, alice, bob, trick, begun, then, slow) })
}

// besideSlow says how long alice waits for her commands before, and then for them or
// the guest's answers.
func besideSlow(ctx context.Context, t *testing.T, alice, bob *agent, trick engine.Command, begun string, then engine.Limits, slow [][]string) waits {
	t.Helper()
	c := bob.house.Client
	alone := latencies(ctx, t, alice, forAMoment)
	shown := newWaiter(begun)
	trick.Stdout, trick.Stderr = shown, shown
	p, err := bob.room().Exec(ctx, trick)
	if err != nil {
		t.Fatal(err)
	}
	shown.wait(ctx, t)
	if err := c.SetRoomLimits(ctx, bob.User, then); err != nil {
		t.Fatal(err)
	}
	starting, stop := context.WithCancel(ctx)
	var started sync.WaitGroup
	for _, args := range slow {
		started.Go(func() {
			_, _ = engine.Run(starting, bob.room(), engine.Command{Args: args, Grace: 100 * time.Millisecond})
		})
	}
	var pings []time.Duration
	took := latencies(ctx, t, alice, func(n int) bool {
		began := time.Now()
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
		pings = append(pings, time.Since(began))
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	if err := c.SetRoomLimits(ctx, bob.User, engine.Limits{}); err != nil {
		t.Error(err)
	}
	stop()
	started.Wait()
	t.Logf("alice alone: median %v; beside bob: median %v, p99 %v of %d; the guest's answers: p99 %v; bob: %q",
		percentile(alone, 50), percentile(took, 50), percentile(took, 99), len(took), percentile(pings, 99), shown)
	return waits{alone, append(took, pings...)}
}

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

// stopCases make bob's own commands slow to start. Nobody else waits for them.
func stopCases() []roomCase {
	return []roomCase{{"Stopping", attackStop}, {"Starving", attackStarve}}
}

// attackStop stops commands before they have executed their program, while they already belong to
// the agent.
func attackStop(ctx context.Context, t *testing.T, alice, bob *agent) {
	// Each of these scripts is the next one's interpreter. Execve tries them all, which takes a
	// while, and fails.
	const seconds, last = 3, 5
	for i := 1; i <= last; i++ {
		text := fmt.Sprintf("#!%s/s%d\n", bob.Home, i+1)
		if i == last {
			text = ""
		}
		path := filepath.Join(bob.onHost(), fmt.Sprintf("s%d", i))
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}
	if out, exit := bob.run(ctx, t, "cp /bin/true /tmp/leased"); exit.Status() != 0 {
		t.Fatal(out)
	}
	long := strings.Repeat("x", 100_000)
	slow, leased := []string{bob.Home + "/s1", long, long, long}, []string{"/tmp/leased"}
	startSlowly(ctx, t, alice, bob, engine.Command{Args: []string{"./intruder", "stop", fmt.Sprint(seconds), "/tmp/leased"}}, "stopping",
		engine.Limits{}, slow, slow, slow, slow, slow, slow, leased, leased)
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
}

// attackStarve starts commands in a room that uses up its hundredth of a processor.
func attackStarve(ctx context.Context, t *testing.T, alice, bob *agent) {
	const hundredth = 10
	idle := []string{"true"}
	startSlowly(ctx, t, alice, bob, engine.Command{Args: sh("echo spinning; while :; do :; done"), Timeout: 3 * time.Second, Grace: 100 * time.Millisecond},
		"spinning", engine.Limits{CPUMaxMillis: hundredth}, idle, idle, idle, idle, idle, idle)
}

// startSlowly has alice work while bob runs a trick that makes his other commands slow to start,
// and starts these under the limits.
func startSlowly(ctx context.Context, t *testing.T, alice, bob *agent, trick engine.Command, ready string, limits engine.Limits, slow ...[]string) {
	t.Helper()
	starting, stop := context.WithCancel(ctx)
	var started sync.WaitGroup
	defer started.Wait()
	defer stop()
	beside(ctx, t, alice, func() engine.Process {
		shown := newWaiter(ready)
		trick.Stdout, trick.Stderr = shown, shown
		p, err := bob.room().Exec(ctx, trick)
		if err != nil {
			t.Fatal(err)
		}
		shown.wait(ctx, t)
		bob.limit(ctx, t, limits)
		for _, args := range slow {
			started.Go(func() {
				_, _ = engine.Run(starting, bob.room(), engine.Command{Args: args, Grace: 100 * time.Millisecond})
			})
		}
		return p
	})
	bob.limit(ctx, t, engine.Limits{})
}

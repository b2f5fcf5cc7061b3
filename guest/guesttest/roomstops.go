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

	"osaurus-sandbox/guest"
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
	const seconds = 5
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
	beside(ctx, t, alice, bob, guest.Command{Args: []string{"./intruder", "stop", fmt.Sprint(seconds), "/tmp/leased"}}, "stopping",
		guest.Limits{}, slow, slow, slow, slow, slow, slow, leased, leased)
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
	beside(ctx, t, alice, bob, guest.Command{Args: sh("echo spinning; while :; do :; done"), Timeout: 5 * time.Second, Grace: 100 * time.Millisecond},
		"spinning", guest.Limits{CPUMaxMillis: hundredth}, idle, idle, idle, idle, idle, idle)
}

// beside has alice work, and the guest answer, while bob runs what makes his own
// commands slow to start, and starts these; then are his limits meanwhile. Others may use the host too, for a
// moment: one of a few tries must be quick.
func beside(ctx context.Context, t *testing.T, alice, bob *agent, trick guest.Command, begun string, then guest.Limits, slow ...[]string) {
	t.Helper()
	for try := 1; ; try++ {
		waited, limit := besideSlow(ctx, t, alice, bob, trick, begun, then, slow)
		if waited <= limit {
			return
		}
		if try == fewTries {
			t.Errorf("alice or the guest's answers took %v, more than %v", waited, limit)
			return
		}
	}
}

// besideSlow says how long alice waits for her commands or the guest's answers, and how
// long she may.
func besideSlow(ctx context.Context, t *testing.T, alice, bob *agent, trick guest.Command, begun string, then guest.Limits, slow [][]string) (waited, limit time.Duration) {
	t.Helper()
	c := bob.house.Client
	quiet := latencies(ctx, t, alice, func(n int) bool { return n < 10 })
	limit = max(unmovedWithin, slower*quiet[len(quiet)/2])
	shown := newWaiter(begun)
	trick.Room, trick.Stdout, trick.Stderr = bob.User, shown, shown
	p, err := c.Exec(ctx, trick)
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
			_, _ = c.Run(starting, guest.Command{Args: args, Room: bob.User, Grace: 100 * time.Millisecond})
		})
	}
	pinged := time.Duration(0)
	took := latencies(ctx, t, alice, func(n int) bool {
		began := time.Now()
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
		pinged = max(pinged, time.Since(began))
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{}); err != nil {
		t.Error(err)
	}
	stop()
	started.Wait()
	worst := took[len(took)-1]
	t.Logf("alice alone: median %v; beside bob: median %v, worst %v of %d; the guest's answers: worst %v; bob: %q",
		quiet[len(quiet)/2], took[len(took)/2], worst, len(took), pinged, shown)
	return max(worst, pinged), limit
}

package guesttest

import (
	"context"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

const (
	// answersWithin is what alice's commands may take beside bob at his worst, and
	// where the processor is emulated, slower is how many times what they take without
	// him.
	answersWithin = time.Second
	slower        = 10
	// fewTries are enough for one in which the host has nothing else to do. A wall
	// that is missing is missing in all of them.
	fewTries = 5
)

// waits are how long alice's commands take, and the guest's answers.
type waits struct{ alone, beside []time.Duration }

// worst is what 99 of 100 beside bob keep to.
func (w waits) worst() time.Duration { return percentile(w.beside, 99) }

// limit is what they may take at worst, which is never less than floor.
func (w waits) limit(floor time.Duration) time.Duration {
	return max(floor, slower*percentile(w.alone, 50))
}

func (w waits) short(floor time.Duration) bool { return w.worst() <= w.limit(floor) }

// shortBeside has alice wait beside bob, as try says, until she does not wait for long.
// Others may use the host too, for a moment: one of a few tries must be quick, or all
// together.
func shortBeside(ctx context.Context, t *testing.T, alice *agent, floor time.Duration, try func() waits) {
	t.Helper()
	var all waits
	for n := 1; ; n++ {
		one := try()
		if !one.short(floor) { // has the host got slower since?
			one.alone = append(one.alone, latencies(ctx, t, alice, forAMoment)...)
		}
		all.alone, all.beside = append(all.alone, one.alone...), append(all.beside, one.beside...)
		if one.short(floor) || all.short(floor) {
			return
		}
		if n == fewTries {
			t.Errorf("alice or the guest's answers took %v, more than %v, and in all tries together %v, more than %v",
				one.worst(), one.limit(floor), all.worst(), all.limit(floor))
			return
		}
	}
}

// latencies are how long alice's commands take.
func latencies(ctx context.Context, t *testing.T, a *agent, more func(int) bool) []time.Duration {
	t.Helper()
	var took []time.Duration
	for more(len(took)) {
		began := time.Now()
		if _, exit := a.command(ctx, t, engine.Command{Args: []string{"true"}}); exit.Status() != 0 {
			t.Fatalf("alice's command: %+v", exit)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// forAMoment is for as many commands as tell what one takes now.
func forAMoment(n int) bool { return n < 10 }

func percentile(of []time.Duration, percent int) time.Duration {
	return slices.Sorted(slices.Values(of))[len(of)*percent/100]
}

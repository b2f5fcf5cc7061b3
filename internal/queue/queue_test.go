package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
)

// Turns of one key are given in the order of the requests. A caller that has left is
// skipped, and another key does not wait.
func TestTurns(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		var q Queues[string]
		give, err := q.Take(t.Context(), "a", func(int) { t.Error("the first was told to wait") })
		if err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancelCause(t.Context())
		why := errors.New("why")
		var order, ahead []int
		for n := range 4 {
			ctx := t.Context()
			if n == 1 {
				ctx = leaving
			}
			go func() {
				give, err := q.Take(ctx, "a", func(n int) { ahead = append(ahead, n) })
				if n == 1 {
					if !errors.Is(err, why) {
						t.Errorf("who left got %v", err)
					}
					return
				}
				order = append(order, n)
				time.Sleep(time.Second)
				give()
			}()
			timetest.Wait()
		}
		other, err := q.Take(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		other()
		leave(why)
		timetest.Wait()
		if len(order) != 0 {
			t.Errorf("%v had the turn that was not given back", order)
		}
		give()
		time.Sleep(time.Minute)
		timetest.Wait()
		if !slices.Equal(order, []int{0, 2, 3}) || !slices.Equal(ahead, []int{1, 2, 3, 4}) {
			t.Errorf("the order was %v, with %v ahead", order, ahead)
		}
		if len(q.lines) != 0 {
			t.Errorf("%d lines are left", len(q.lines))
		}
	})
}

package events_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
)

// A ring ends with its agent: for a reader that follows an agent of the same id, and for items that come late.
func TestRingOfADeletedAgent(t *testing.T) {
	var there atomic.Bool
	there.Store(true)
	r := events.NewRings[events.Seq](4, func(config.AgentID) bool { return there.Load() })
	add := func() { r.Add("alice", func(n events.Seq) events.Seq { return n }) }
	for range 6 {
		add()
	}
	var got []events.Seq
	var end error
	for n, err := range r.Read(t.Context(), "alice", true) {
		if end = err; err != nil {
			break
		}
		if got = append(got, n); len(got) == 4 {
			r.Forget("alice")
			add() // of the next agent, with a smaller number
			time.AfterFunc(50*time.Millisecond, func() {
				there.Store(false)
				r.Forget("alice")
				add()
			})
		}
	}
	if !slices.Equal(got, []events.Seq{3, 4, 5, 6}) || fault.KindOf(end) != fault.NotFound {
		t.Errorf("%v, %v", got, end)
	}
	there.Store(true)
	for n := range r.Read(t.Context(), "alice", false) {
		t.Errorf("%d is left", n)
	}
}

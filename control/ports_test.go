package control

import (
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// Connections are bounded for each agent and for all, and every agent can have a few.
func TestConnectionsOfAllForwards(t *testing.T) {
	var all forwards
	way := func(agent config.AgentID) *controlpb.ConnectTo {
		id, forget := all.add(t.Context(), agent, []config.Port{80})
		t.Cleanup(forget)
		return &controlpb.ConnectTo{Forward: id, Port: 80}
	}
	// fill connects until it is refused.
	fill := func(ways ...*controlpb.ConnectTo) (releases []func()) {
		for n := 0; ; n++ {
			_, release, err := all.enter(ways[n%len(ways)])
			if err != nil {
				if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
					t.Error(err)
				}
				return releases
			}
			releases = append(releases, release)
		}
	}
	ofAlice := []*controlpb.ConnectTo{way("A"), way("A"), way("A")}
	first, second, third := fill(ofAlice...), fill(way("B")), fill(way("C"))
	if len(first) != maxConnections || len(first)+len(second) != maxOfAll || len(third) != fewConnections {
		t.Errorf("alice has %d connections, bob %d, and carol %d", len(first), len(second), len(third))
	}
	for _, release := range third {
		release()
	}
	first[0]()
	if again := fill(ofAlice[0]); len(again) != 1 {
		t.Errorf("for one that has ended there are %d", len(again))
	}
}

// After the client has closed its side, a silent room ends the connection. The time in which
// the client reads an answer does not count.
func TestSilentRoom(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		over := make(chan time.Time, 1)
		silence := time.AfterFunc(maxSilence, func() { over <- time.Now() })
		silence.Stop()
		answer := func(takes time.Duration) {
			_ = pausing(silence, maxSilence, func() error { time.Sleep(takes); return nil })
		}
		answer(0)
		time.Sleep(2 * maxSilence)
		silence.Reset(maxSilence)
		for range 3 {
			time.Sleep(maxSilence - time.Second)
			answer(2 * maxSilence)
		}
		if len(over) > 0 {
			t.Fatal("it ended early")
		}
		last := time.Now()
		if at := <-over; at.Sub(last) != maxSilence {
			t.Errorf("it ended after %v", at.Sub(last))
		}
	})
}

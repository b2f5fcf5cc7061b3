package control

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/fault"
)

// However many forward an agent's ports, their connections leave it, and all others, commands.
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
	ofAlice, ofBob := []*controlpb.ConnectTo{way("A"), way("A"), way("A")}, way("B")
	first := fill(ofAlice...)
	second := fill(ofBob)
	if len(first) != maxConnections || len(first)+len(second) != maxOfAll {
		t.Errorf("alice has %d connections, and bob %d", len(first), len(second))
	}
	first[0]()
	if again := fill(ofAlice[0]); len(again) != 1 {
		t.Errorf("for one that has ended there are %d", len(again))
	}
}

// Who has sent all waits for as long as something comes, and not much longer.
func TestHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		go hangUp(ctx, &answers, end)
		for range 10 {
			time.Sleep(maxSilence - time.Second)
			answers.Add(1)
		}
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		last := time.Now()
		<-ctx.Done()
		if silent := time.Since(last); silent < maxSilence || silent > 2*maxSilence {
			t.Errorf("after %v of silence", silent)
		}
	})
}

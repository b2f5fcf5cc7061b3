package control

import (
	"context"
	"io"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// However many forward an agent's ports, their connections leave it, and all others, commands, and
// some connections.
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

// A connection lasts for as long as it carries something, or has nothing to carry, or waits for
// who has connected: not much longer for a room that leaves what was sent, or that owes an
// answer.
func TestHangUp(t *testing.T) {
	// page sends so many messages, and then that this was all, if it has an end.
	type page struct {
		sends int
		end   error
	}
	for name, c := range map[string]struct {
		page
		reads  bool // the room reads what is sent
		takes  bool // the page reads what is answered
		ending bool
	}{
		"all was sent":                       {page{2, io.EOF}, true, true, true},
		"the room reads nothing":             {page{2, nil}, false, true, true},
		"the room reads nothing of the last": {page{1, io.EOF}, false, true, true},
		"the page goes on":                   {page{2, nil}, true, true, false},
		"the page has a pause in what comes": {page{2, io.EOF}, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				var moved traffic
				in, fed := io.Pipe()
				defer in.Close()
				if c.reads {
					go func() { _, _ = io.Copy(io.Discard, in) }()
				}
				sent := 0
				go moved.feed(func() ([]byte, error) {
					if sent++; sent <= c.sends {
						return []byte("x"), nil
					}
					if c.end == nil {
						<-ctx.Done()
					}
					return nil, io.EOF
				}, fed)
				go moved.hangUp(ctx, end)
				answers := moved.answers(func([]byte) error {
					if !c.takes {
						<-ctx.Done()
					}
					return nil
				})
				var last time.Time
				for range 10 {
					time.Sleep(maxSilence - time.Second)
					if err := ctx.Err(); err != nil {
						t.Error(err)
					}
					last = time.Now()
					go func() { _, _ = answers.Write([]byte("x")) }()
					if !c.takes {
						break
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(3 * maxSilence):
				}
				if ended := ctx.Err() != nil; ended != c.ending {
					t.Fatalf("it has ended: %v", ended)
				}
				if silent := time.Since(last); c.ending && (silent < maxSilence || silent > 2*maxSilence) {
					t.Errorf("after %v of silence", silent)
				}
			})
		})
	}
}

package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/timetest"
)

// burning is a guest in which alice uses one processor and receives 1,000 bytes a second, and bob
// the same from when he has a room.
type burning struct {
	controlpbconnect.AgentsClient
	alice, bob time.Time
}

func (b burning) Usage(context.Context, *controlpb.AgentUsageRequest) (*controlpb.AgentUsageResponse, error) {
	r := &controlpb.AgentUsageResponse{Running: true, Time: timestamppb.Now()}
	for name, since := range map[string]time.Time{"alice": b.alice, "bob": b.bob} {
		if ran := time.Since(since); ran >= 0 {
			r.Agents = append(r.Agents, &controlpb.AgentUsage{
				Agent: name, Cpu: durationpb.New(ran), Received: uint64(1000 * ran.Seconds()), Since: timestamppb.New(since),
			})
		}
	}
	return r, nil
}

// What agents use is true at the first look as well, also of one whose room was made just before it.
func TestTopHasRatesAtOnce(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		client := &control.Client{Agents: burning{alice: time.Now().Add(-time.Hour), bob: time.Now().Add(500 * time.Millisecond)}}
		var out bytes.Buffer
		began := time.Now()
		var ticks []tick
		err := watchTop(t.Context(), &out, client, "", 10*time.Second, 2, func(w io.Writer, now tick) error {
			ticks = append(ticks, now)
			return plainTop(w, now)
		})
		if took := time.Since(began); err != nil || took != maxFirst+10*time.Second {
			t.Fatalf("%v, after %v", err, took)
		}
		if len(ticks) != 2 || len(ticks[0].Agents) != 2 {
			t.Fatalf("%+v", ticks)
		}
		for _, a := range ticks[0].Agents {
			want := map[string]float64{"alice": 1, "bob": .5}[a.Agent]
			if a.CPUPercent != 100*want || a.ReceivedRate != 1000*want {
				t.Errorf("at the first look: %+v", a)
			}
		}
		for _, a := range ticks[1].Agents {
			if a.CPUPercent != 100 || a.ReceivedRate != 1000 {
				t.Errorf("at the second look: %+v", a)
			}
		}
		if !strings.Contains(out.String(), "100%") {
			t.Errorf("%s", &out)
		}
	})
}

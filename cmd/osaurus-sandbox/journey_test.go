package main

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/vm/image/progress"
)

// A command shows the steps that the sandbox takes meanwhile, and none of those of
// its last start.
func TestStepsShown(t *testing.T) {
	began := timestamppb.Now()
	status := func(operation string, states ...string) *controlpb.Status {
		j := &controlpb.Journey{Began: began}
		for i, name := range []string{"boot", "verify"}[:len(states)] {
			j.Steps = append(j.Steps, &controlpb.Step{Name: name, Status: states[i]})
		}
		return &controlpb.Status{Operation: operation, Journey: j}
	}
	for _, test := range []struct {
		name     string
		statuses []*controlpb.Status
		want     int
	}{
		{"it stops", []*controlpb.Status{status("down", "completed", "completed"), status("", "completed", "completed")}, 0},
		{"nothing happens", []*controlpb.Status{status("", "completed", "completed")}, 0},
		{"it starts", []*controlpb.Status{status("up", "completed", "pending"), status("up", "completed", "completed")}, 2},
	} {
		shown := 0
		s := newSteps(func(progress.Event) { shown++ })
		for _, status := range test.statuses {
			s.show(status)
		}
		if shown != test.want {
			t.Errorf("%s: %d steps are shown, want %d", test.name, shown, test.want)
		}
	}
}

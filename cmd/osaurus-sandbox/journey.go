package main

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/vm/image/progress"
)

// withProgress shows the steps of what the sandbox does while do waits for it.
func withProgress(ctx context.Context, c console, client *control.Client, do func() (*controlpb.Status, error)) (*controlpb.Status, error) {
	watch, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		// Without it the command still does what it should.
		stream, err := client.WatchStatus(watch, connect.NewRequest(&controlpb.WatchStatusRequest{}))
		if err != nil {
			return
		}
		defer stream.Close()
		steps := newSteps(showProgress(c.err))
		for stream.Receive() {
			steps.show(stream.Msg().Status)
		}
	}()
	status, err := do()
	stop()
	<-shown
	return status, err
}

// steps shows a journey.
type steps struct {
	report progress.Func
	shown  map[string]bool // what was shown, or was over before; nil before the first status
}

func newSteps(report progress.Func) *steps { return &steps{report: report} }

// show shows what is new of a journey.
func (s *steps) show(status *controlpb.Status) {
	j := status.GetJourney()
	report := s.report
	if s.shown == nil {
		s.shown = map[string]bool{}
		if status.GetOperation() == "" {
			report = func(progress.Event) {} // it is an old one
		}
	}
	once := func(key string, e progress.Event) {
		if key = fmt.Sprint(j.Began.AsTime(), key); !s.shown[key] {
			s.shown[key] = true
			report(e)
		}
	}
	for _, note := range j.GetNotes() {
		once(note, progress.Event{Note: note})
	}
	for _, step := range j.GetSteps() {
		e := progress.Event{Step: stepName(step), Done: int64(step.Done), Total: int64(step.Total), Rate: step.Rate, Left: step.Left.AsDuration()}
		switch step.Status {
		case "in_progress":
			report(e)
		case "completed":
			e.Finished = true
			once(step.Name, e)
		}
	}
}

// stepName is a step for people.
func stepName(s *controlpb.Step) string {
	name := map[string]string{
		"pack": "find what the guest is made of", "image": "make the image", "toolbox": "install the toolbox",
		"disk": "make the disk", "boot": "boot", "verify": "check that all is there",
	}[s.Name]
	if name == "" {
		name = s.Name
	}
	if s.Detail != "" && s.Status == "in_progress" {
		name += ": " + s.Detail
	}
	return name
}

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/progress"
)

// toldAfter is how long a command may take to begin before a person is shown what
// it waits for.
const toldAfter = time.Second

// withProgress shows the steps of what the sandbox does while do waits for it.
func withProgress(ctx context.Context, c console, client *control.Client, do func() (*controlpb.Status, error)) (*controlpb.Status, error) {
	stop := showJourney(ctx, c, client, 0)
	defer stop()
	return do()
}

// showStart shows a person at a terminal how the sandbox starts, where something that
// they have asked for has to wait for that, until stop is called.
func showStart(ctx context.Context, c console, client *control.Client) (stop func()) {
	if terminalWidth(c.err) == 0 {
		return func() {}
	}
	return showJourney(ctx, c, client, toldAfter)
}

// showingStart is start that shows how the sandbox starts, until the command writes
// something itself.
func showingStart(c console, client *control.Client, start starter) starter {
	return func(ctx context.Context, command engine.Command) (process, error) {
		stop := showStart(ctx, c, client)
		defer stop()
		var once sync.Once // its output may come before start returns
		command.Stdout, command.Stderr = onFirst{command.Stdout, &once, stop}, onFirst{command.Stderr, &once, stop}
		return start(ctx, command)
	}
}

// showJourney shows the steps of what the sandbox does, from after a while until
// stop is called; it may be called again.
func showJourney(ctx context.Context, c console, client *control.Client, after time.Duration) (stop func()) {
	watch, cancel := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		select {
		case <-watch.Done():
			return
		case <-time.After(after):
		}
		show, undone := showProgress(c.err), false
		steps := newSteps(func(e progress.Event) {
			show(e)
			undone = e.Note == "" && !e.Finished
		})
		for r, err := range control.Messages(client.WatchStatus(watch, &controlpb.WatchStatusRequest{})) {
			if err != nil {
				break // without it the command still does what it should
			}
			steps.show(r.Status)
		}
		if undone && terminalWidth(c.err) > 0 { // it is on the line still
			fmt.Fprint(c.err, clearLine)
		}
	}()
	return func() {
		cancel()
		<-shown
	}
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
		if status.GetOperation() == "" || !underWay(j) {
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

// underWay reports whether a journey has steps before it.
func underWay(j *controlpb.Journey) bool {
	return slices.ContainsFunc(j.GetSteps(), func(s *controlpb.Step) bool { return s.Status == "pending" || s.Status == "in_progress" })
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

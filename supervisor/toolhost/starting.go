package toolhost

import (
	"context"
	"time"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// tellEvery is how often the progress of one step is reported, since a download
// moves with every packet.
const tellEvery = time.Second

// starting reports the start of a machine to calls that wait for it.
type starting struct{ *machine.Machine }

var _ tools.Starting = starting{}

func (s starting) Follow(ctx context.Context, tell func(tools.Progress)) {
	var told string
	var at time.Time
	for _, status := range s.Watch(ctx) {
		if status.State == machine.Running {
			return
		}
		if status.Operation == "" {
			continue
		}
		text := "the sandbox is starting"
		step, ok := underWay(status)
		if ok {
			text += ": " + textOf(step)
		}
		if text != told || time.Since(at) >= tellEvery {
			told, at = text, time.Now()
			tell(tools.Progress{Text: text, Done: float64(step.Done), Total: float64(step.Total)})
		}
	}
}

func (s starting) Pending() string {
	status := s.Status()
	if status.State == machine.Running || status.Operation == "" {
		return ""
	}
	if step, ok := underWay(status); ok {
		return textOf(step)
	}
	return string(status.State)
}

// underWay returns the current step of a start.
func underWay(s machine.Status) (progress.Step, bool) {
	if s.Operation != "" && s.Progress != nil {
		for _, step := range s.Progress.Steps {
			if step.State == progress.InProgress {
				return step, true
			}
		}
	}
	return progress.Step{}, false
}

// textOf describes a step in a few words.
func textOf(step progress.Step) string {
	if step.Detail != "" {
		return string(step.Name) + ", " + step.Detail
	}
	return string(step.Name)
}

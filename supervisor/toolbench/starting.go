package toolbench

import (
	"context"
	"time"

	"osaurus-sandbox/supervisor/journey"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// tellEvery is how often a step is told of that goes on: a download moves with
// every packet.
const tellEvery = time.Second

// starting is the sandbox as calls find it.
type starting struct{ *machine.Machine }

var _ tools.Starting = starting{}

func (s starting) Follow(ctx context.Context, tell func(tools.Progress)) {
	var told string
	var at time.Time
	for revision := uint64(0); ; {
		status, err := s.Next(ctx, revision)
		if err != nil || status.State == machine.Running {
			return
		}
		revision = status.Revision
		if status.Operation == "" {
			continue
		}
		text := "the sandbox is starting"
		leg, ok := underWay(status)
		if ok {
			text += ": " + textOf(leg)
		}
		if text != told || time.Since(at) >= tellEvery {
			told, at = text, time.Now()
			tell(tools.Progress{Text: text, Done: float64(leg.Done), Total: float64(leg.Total)})
		}
	}
}

func (s starting) Pending() string {
	status := s.Status()
	if status.State == machine.Running || status.Operation == "" {
		return ""
	}
	if leg, ok := underWay(status); ok {
		return textOf(leg)
	}
	return string(status.State)
}

// underWay is the step that a start is at.
func underWay(s machine.Status) (journey.Leg, bool) {
	if s.Operation != "" && s.Journey != nil {
		for _, leg := range s.Journey.Legs {
			if leg.Status == journey.InProgress {
				return leg, true
			}
		}
	}
	return journey.Leg{}, false
}

// textOf is a step in a few words.
func textOf(leg journey.Leg) string {
	if leg.Detail != "" {
		return string(leg.Step) + ", " + leg.Detail
	}
	return string(leg.Step)
}

// Package journey is long work in named steps, and how far it has come.
package journey

import (
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/progress"
)

// Step is a step of the way to a running guest, in the order of Steps.
type Step string

const (
	Pack    Step = "pack"    // find what the guest is made of, or download or build it
	Image   Step = "image"   // make the image that is booted
	Toolbox Step = "toolbox" // install the tools into a bare image
	Disk    Step = "disk"    // make or grow the data disk
	Boot    Step = "boot"    // start the machine, until its guest answers
	Verify  Step = "verify"  // ask the guest whether it has what it needs
)

// Steps are all steps, in their order.
func Steps() []Step { return []Step{Pack, Image, Toolbox, Disk, Boot, Verify} }

// Status is how far a step is.
type Status string

const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Skipped    Status = "skipped" // there was nothing to do, or it could be done without; Detail says which
)

// Leg is a step of a journey as it is now.
type Leg struct {
	Step   Step   `json:"step"`
	Status Status `json:"status"`
	// Detail is what is being done, or why it was skipped or failed.
	Detail string `json:"detail,omitempty"`
	// Done and Total count bytes of what Detail says; a Total of zero is not known.
	Done  int64         `json:"done,omitempty"`
	Total int64         `json:"total,omitempty"`
	Rate  float64       `json:"rate,omitempty"` // bytes per second
	Took  time.Duration `json:"took,omitempty"` // until now, if it is in progress
	Left  time.Duration `json:"left,omitempty"` // estimated; zero where nobody can
}

// Journey is a journey as it is now.
type Journey struct {
	Began time.Time     `json:"began"`
	Legs  []Leg         `json:"legs"`
	Left  time.Duration `json:"left,omitempty"` // estimated, of all that is not done
	Notes []string      `json:"notes,omitempty"`
}

// maxNotes bounds what a journey remembers of what it was told.
const maxNotes = 20

// Walk is a journey under way. Its methods may be called from any goroutine.
type Walk struct {
	changed func()
	last    Durations

	mu      sync.Mutex
	journey Journey
	began   map[Step]time.Time
}

// Begin begins a journey with all steps pending. It calls changed, which must
// be quick, whenever the journey is not what it was.
func Begin(last Durations, changed func()) *Walk {
	w := &Walk{changed: changed, last: last, began: map[Step]time.Time{}, journey: Journey{Began: time.Now()}}
	for _, s := range Steps() {
		w.journey.Legs = append(w.journey.Legs, Leg{Step: s, Status: Pending})
	}
	return w
}

// Do does a step. The step is told of by do's reports.
func (w *Walk) Do(step Step, do func(report progress.Func) error) error {
	w.update(step, func(l *Leg) {
		*l = Leg{Step: step, Status: InProgress}
		w.began[step] = time.Now()
	})
	err := do(func(e progress.Event) { w.report(step, e) })
	w.update(step, func(l *Leg) {
		if l.Status == Skipped {
			return
		}
		*l = Leg{Step: step, Status: Completed, Took: time.Since(w.began[step])}
		if err != nil {
			l.Status, l.Detail = Failed, err.Error()
		}
	})
	return err
}

// Skip says that a step is not done, and why.
func (w *Walk) Skip(step Step, why string) {
	w.update(step, func(l *Leg) { *l = Leg{Step: step, Status: Skipped, Detail: why} })
}

func (w *Walk) report(step Step, e progress.Event) {
	w.update(step, func(l *Leg) {
		if e.Note != "" {
			if w.journey.Notes = append(w.journey.Notes, e.Note); len(w.journey.Notes) > maxNotes {
				w.journey.Notes = w.journey.Notes[1:]
			}
			return
		}
		if l.Status == InProgress {
			l.Detail, l.Done, l.Total, l.Rate, l.Left = e.Step, e.Done, e.Total, e.Rate, e.Left
		}
	})
}

func (w *Walk) update(step Step, change func(*Leg)) {
	w.mu.Lock()
	change(&w.journey.Legs[slices.Index(Steps(), step)])
	w.mu.Unlock()
	w.changed()
}

// Journey is how far it is.
func (w *Walk) Journey() Journey {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.journey
	j.Legs, j.Notes = slices.Clone(j.Legs), slices.Clone(j.Notes)
	for i := range j.Legs {
		l := &j.Legs[i]
		switch l.Status {
		case Pending:
			l.Left = w.last[l.Step]
		case InProgress:
			l.Took = time.Since(w.began[l.Step])
			l.Left = max(l.Left, w.last[l.Step]-l.Took)
		}
		j.Left += l.Left
	}
	return j
}

// Durations are those of the last time, with what this journey has measured.
func (w *Walk) Durations() Durations {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := Durations{}
	for s, took := range w.last {
		d[s] = took
	}
	for _, l := range w.journey.Legs {
		if l.Status == Completed {
			d[l.Step] = l.Took
		}
	}
	return d
}

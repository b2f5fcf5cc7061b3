// Package progress reports the progress of long operations.
package progress

import (
	"slices"
	"sync"
	"time"
)

// Event is one report.
type Event struct {
	Step string // what is being done, for people: "download alpine-virt.iso"
	// Done and Total count bytes; Total is zero while unknown.
	Done, Total int64
	Rate        float64       // bytes per second since the step began
	Left        time.Duration // estimate; zero while unknown
	Finished    bool          // the last event of its step
	Note        string        // a message that belongs to no step
}

// Func receives events, one at a time. It must be quick. A nil Func is fine to Start with.
type Func func(Event)

// interval is the time between reports of a meter, enough for a bar that moves.
const interval = 100 * time.Millisecond

// Meter is an io.Writer that counts bytes and reports them.
type Meter struct {
	report Func

	mu       sync.Mutex
	event    Event
	began    time.Time
	base     int64 // done before the meter began
	reported time.Time
}

// Start begins a step in which base of total bytes are already done.
func (f Func) Start(step string, base, total int64) *Meter {
	m := &Meter{report: f, event: Event{Step: step, Done: base, Total: total}, base: base, began: time.Now()}
	m.send(true)
	return m
}

// Note reports a message.
func (f Func) Note(text string) {
	if f != nil {
		f(Event{Note: text})
	}
}

// Write counts len(p) bytes.
func (m *Meter) Write(p []byte) (int, error) {
	m.Add(int64(len(p)))
	return len(p), nil
}

// Add counts n bytes.
func (m *Meter) Add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.event.Done += n
	m.send(false)
}

// Finish ends the step with a last event.
func (m *Meter) Finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.event.Finished = true
	m.send(true)
}

func (m *Meter) send(always bool) {
	now := time.Now()
	if m.report == nil || !always && now.Sub(m.reported) < interval {
		return
	}
	m.reported = now
	e := &m.event
	if elapsed := now.Sub(m.began).Seconds(); elapsed > 0 {
		e.Rate = float64(e.Done-m.base) / elapsed
	}
	e.Left = 0
	if e.Rate > 0 && e.Total > e.Done {
		e.Left = time.Duration(float64(e.Total-e.Done) / e.Rate * float64(time.Second)).Round(time.Second)
	}
	m.report(*e)
}

// StepName names one of the steps that lead to a running guest.
type StepName string

const (
	StepPack    StepName = "pack"    // find, download or build the pack
	StepImage   StepName = "image"   // make the bootable image
	StepToolbox StepName = "toolbox" // install the toolbox into a bare image
	StepDisk    StepName = "disk"    // make or grow the data disk
	StepBoot    StepName = "boot"    // start the machine and wait for its guest
	StepVerify  StepName = "verify"  // check that the guest has what it needs
)

// Steps returns all steps in order.
func Steps() []StepName {
	return []StepName{StepPack, StepImage, StepToolbox, StepDisk, StepBoot, StepVerify}
}

// State is the state of a step.
type State string

const (
	Pending    State = "pending"
	InProgress State = "in_progress"
	Completed  State = "completed"
	Failed     State = "failed"
	Skipped    State = "skipped" // not needed, or not possible and optional; Detail says which
)

// Step is a snapshot of one step.
type Step struct {
	Name  StepName `json:"step"`
	State State    `json:"status"`
	// Detail is the current activity, or why the step was skipped or failed.
	Detail string `json:"detail,omitempty"`
	// Done and Total count bytes of the current activity. Total is zero while unknown.
	Done  int64         `json:"done,omitempty"`
	Total int64         `json:"total,omitempty"`
	Rate  float64       `json:"rate,omitempty"` // bytes per second
	Took  time.Duration `json:"took,omitempty"` // so far, if in progress
	Left  time.Duration `json:"left,omitempty"` // estimate for the current activity; zero while unknown
}

// Status is a snapshot of a Tracker.
type Status struct {
	Began time.Time `json:"began"`
	Steps []Step    `json:"steps"`
	Notes []string  `json:"notes,omitempty"`
}

// maxNotes is how many of the latest notes a Tracker keeps.
const maxNotes = 20

// Tracker follows work through its named steps. It is safe for concurrent use.
type Tracker struct {
	changed func()

	mu     sync.Mutex
	status Status
	began  map[StepName]time.Time
}

// NewTracker returns a tracker with all steps pending. It calls changed, which
// must not block, after each change.
func NewTracker(changed func()) *Tracker {
	t := &Tracker{changed: changed, began: map[StepName]time.Time{}, status: Status{Began: time.Now()}}
	for _, name := range Steps() {
		t.status.Steps = append(t.status.Steps, Step{Name: name, State: Pending})
	}
	return t
}

// Do runs a step. What do reports becomes the step's detail.
func (t *Tracker) Do(name StepName, do func(report Func) error) error {
	t.update(name, func(s *Step) {
		*s = Step{Name: name, State: InProgress}
		t.began[name] = time.Now()
	})
	err := do(func(e Event) { t.report(name, e) })
	t.update(name, func(s *Step) {
		if s.State == Skipped {
			return
		}
		*s = Step{Name: name, State: Completed, Took: time.Since(t.began[name])}
		if err != nil {
			s.State, s.Detail = Failed, err.Error()
		}
	})
	return err
}

// Skip marks a step as skipped and records why.
func (t *Tracker) Skip(name StepName, why string) {
	t.update(name, func(s *Step) { *s = Step{Name: name, State: Skipped, Detail: why} })
}

func (t *Tracker) report(name StepName, e Event) {
	t.update(name, func(s *Step) {
		if e.Note != "" {
			notes := append(t.status.Notes, e.Note)
			t.status.Notes = notes[max(0, len(notes)-maxNotes):]
			return
		}
		if s.State == InProgress {
			s.Detail, s.Done, s.Total, s.Rate, s.Left = e.Step, e.Done, e.Total, e.Rate, e.Left
		}
	})
}

func (t *Tracker) update(name StepName, change func(*Step)) {
	t.mu.Lock()
	change(&t.status.Steps[slices.Index(Steps(), name)])
	t.mu.Unlock()
	t.changed()
}

// Status returns a snapshot.
func (t *Tracker) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := t.status
	status.Steps, status.Notes = slices.Clone(t.status.Steps), slices.Clone(t.status.Notes)
	for i := range status.Steps {
		if s := &status.Steps[i]; s.State == InProgress {
			s.Took = time.Since(t.began[s.Name])
		}
	}
	return status
}

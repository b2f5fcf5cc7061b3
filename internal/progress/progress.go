// Package progress reports the progress of long operations.
package progress

import (
	"sync"
	"time"
)

// Event is one report.
type Event struct {
	Step string // what is being done, for people: "download alpine-virt.iso"
	// Done and Total count bytes; a Total of zero means that nobody knows it.
	Done, Total int64
	Rate        float64       // bytes per second since the step began, without what was there before
	Left        time.Duration // estimated; zero where it cannot be
	Finished    bool          // the last event of its step
	Note        string        // something to tell that is no step of its own
}

// Func receives events, one at a time. It must be quick. A nil Func is fine to Start with.
type Func func(Event)

// interval is how often a meter reports: often enough for a bar that moves,
// seldom enough to cost nothing.
const interval = 100 * time.Millisecond

// Meter turns bytes into events. It is an io.Writer that counts.
type Meter struct {
	report Func

	mu       sync.Mutex
	event    Event
	began    time.Time
	base     int64 // what was done before the meter began
	reported time.Time
}

// Start begins a step that has base of total bytes behind it already.
func (f Func) Start(step string, base, total int64) *Meter {
	m := &Meter{report: f, event: Event{Step: step, Done: base, Total: total}, base: base, began: time.Now()}
	m.send(true)
	return m
}

// Note tells something.
func (f Func) Note(text string) {
	if f != nil {
		f(Event{Note: text})
	}
}

// Write counts len(p) bytes.
func (m *Meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.event.Done += int64(len(p))
	m.send(false)
	return len(p), nil
}

// SetTotal says how much there is, once that is known.
func (m *Meter) SetTotal(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.event.Total = total
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

package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// diaryLimit is how many events may wait to be recorded: far more than a
	// sandbox can have while a disk is slow. Beyond it the oldest are lost.
	diaryLimit = 10_000
	// recordLimit is how long a recorder may take over one event.
	recordLimit = 10 * time.Second
)

// diary hands events to a recorder and to the log, in order, while nobody waits.
type diary struct {
	recorder Recorder
	log      *slog.Logger
	written  chan struct{} // has room for one: there is something
	done     chan struct{}

	mu     sync.Mutex
	events []Event
	lost   int
	closed bool
}

func newDiary(r Recorder, log *slog.Logger) *diary {
	d := &diary{recorder: r, log: log, written: make(chan struct{}, 1), done: make(chan struct{})}
	go d.record()
	return d
}

func (d *diary) write(e Event) {
	d.mu.Lock()
	if len(d.events) == diaryLimit {
		d.events = d.events[1:]
		d.lost++
	}
	d.events = append(d.events, e)
	d.mu.Unlock()
	d.wake()
}

func (d *diary) wake() {
	select {
	case d.written <- struct{}{}:
	default:
	}
}

func (d *diary) record() {
	defer close(d.done)
	for {
		<-d.written
		d.mu.Lock()
		events, lost, closed := d.events, d.lost, d.closed
		d.events, d.lost = nil, 0
		d.mu.Unlock()
		if lost > 0 {
			d.log.Error("events were lost: they came faster than they could be recorded", "count", lost)
		}
		for _, e := range events {
			d.keep(e)
		}
		if closed {
			return
		}
	}
}

func (d *diary) keep(e Event) {
	d.log.Info("sandbox", "event", e.Kind, "from", e.From, "to", e.To, "cause", e.Cause, "detail", e.Detail)
	if d.recorder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	if err := d.recorder.Record(ctx, e); err != nil {
		d.log.Error("an event could not be recorded", "event", e, "error", err)
	}
}

// close returns when everything is recorded.
func (d *diary) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wake()
	<-d.done
}

package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// keepLimit is how long writing events may take.
	keepLimit = 10 * time.Second
	// keepAgain is how often writing is retried without new events.
	keepAgain = 30 * time.Second
)

// diary records events. Followers of the journal see them at once; a goroutine writes
// them to the disk and to the log.
type diary struct {
	journal *events.Journal
	log     *slog.Logger
	seen    events.Seq   // the last in the log
	lost    atomic.Int64 // events that the journal refused
	noted   chan struct{}
	quit    chan struct{}
	done    chan struct{}
}

func newDiary(j *events.Journal, log *slog.Logger) *diary {
	d := &diary{journal: j, log: log, seen: j.Last(), noted: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go d.write()
	return d
}

// Record implements machine.Recorder.
func (d *diary) Record(e machine.Event) {
	d.Note(events.Event{Kind: events.Kind(e.Kind), Time: e.Time, Cause: string(e.Cause), Fields: map[string]string{
		"from": string(e.From), "to": string(e.To), "detail": e.Detail,
	}})
}

// Note implements events.Recorder.
func (d *diary) Note(e events.Event) {
	if _, err := d.journal.Note(e); err != nil {
		d.lost.Add(1)
	}
	select {
	case d.noted <- struct{}{}:
	default:
	}
}

// close returns when everything is written. Later events go to the journal only.
func (d *diary) close() {
	close(d.quit)
	<-d.done
}

func (d *diary) write() {
	defer close(d.done)
	again := time.NewTicker(keepAgain)
	defer again.Stop()
	for quit := false; !quit; {
		select {
		case <-d.noted:
		case <-again.C:
		case <-d.quit:
			quit = true
		}
		d.keep()
	}
}

func (d *diary) keep() {
	ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
	defer cancel()
	for e, err := range d.journal.Read(ctx, d.seen, false) {
		if err != nil {
			d.log.Error("the events could not be read", "error", err)
			break
		}
		line := []any{"event", e.Kind, "cause", e.Cause}
		for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
			line = append(line, name, e.Fields[name])
		}
		d.log.Info("sandbox", line...)
		d.seen = e.Seq
	}
	if n := d.lost.Swap(0); n > 0 {
		d.log.Error("events were lost: the disk has taken nothing for too long", "count", n)
	}
	if err := d.journal.Keep(ctx); err != nil {
		d.log.Error("the events could not be kept yet", "error", err)
	}
}

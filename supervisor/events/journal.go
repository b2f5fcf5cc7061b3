package events

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/store"
)

const (
	// Keep is how many events are kept at least, in a few megabytes: months of daily use, or hours
	// of agents that dispatch as many tasks as they may.
	Keep = 10_000
	// slack is how many more may be kept, so that deletions are rare.
	slack = 500
	// maxQueue is how many events may wait for the disk.
	maxQueue = 1_000
	// writeLimit is how long writing events may take, and writeAgain how often it is tried again
	// without new ones.
	writeLimit = 10 * time.Second
	writeAgain = 30 * time.Second
)

type limits struct{ keep, slack, queue int }

// Journal is the only writer of a database's events. Its methods may be called from any goroutine.
//
// An event waits in memory until a goroutine has written it, a few milliseconds later. Readers see
// only what is on the disk.
type Journal struct {
	db     *store.DB
	log    *slog.Logger
	limits limits
	noted  chan struct{} // buffered; a token means that events wait
	quit   chan struct{}
	done   chan struct{}

	writing sync.Mutex // held while events are written

	mu        sync.Mutex
	queue     []Event
	lost      int             // events that did not fit into the queue, since the last message about them
	last      Seq             // the newest event on the disk
	forgotten Seq             // the newest that was deleted
	arrived   notify.Notifier // notified when events are on the disk
}

// Open opens the journal of a database, which also writes events to the log. Close it before the
// database.
func Open(ctx context.Context, db *store.DB, log *slog.Logger) (*Journal, error) {
	return open(ctx, db, log, limits{Keep, slack, maxQueue})
}

func open(ctx context.Context, db *store.DB, log *slog.Logger, limits limits) (*Journal, error) {
	j := &Journal{db: db, log: log, limits: limits, noted: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	err := db.Read(ctx, "open event journal", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce((SELECT max(seq) FROM events), 0), forgotten FROM event_marks").Scan(&j.last, &j.forgotten)
	})
	if err != nil {
		return nil, err
	}
	go j.write()
	return j, nil
}

// Note implements Recorder. If too many events wait for the disk, this one is lost.
func (j *Journal) Note(e Event) {
	e = e.bounded()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) >= j.limits.queue {
		j.lost++
		return
	}
	j.queue = append(j.queue, e)
	notify.Signal(j.noted)
}

// Close writes the remaining events. Events that are noted later are lost.
func (j *Journal) Close() {
	close(j.quit)
	<-j.done
}

func (j *Journal) write() {
	defer close(j.done)
	again := time.NewTicker(writeAgain)
	defer again.Stop()
	for quit := false; !quit; {
		select {
		case <-j.noted:
		case <-again.C:
		case <-j.quit:
			quit = true
		}
		if err := j.writeQueue(); err != nil {
			j.log.Error("the events are not on the disk yet", "error", err)
		}
	}
}

// writeQueue writes the events that wait.
func (j *Journal) writeQueue() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	batch, lost, last, forgotten := slices.Clone(j.queue), j.lost, j.last, j.forgotten
	j.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	err := j.db.Write(ctx, "keep event", func(tx *sql.Tx) error {
		for i := range batch {
			e := &batch[i]
			last++
			e.Seq = last
			if _, err := tx.ExecContext(ctx, "INSERT INTO events VALUES (?, ?, ?, ?, ?)", e.Seq, e.Time.UnixNano(), e.Kind, e.Cause, store.JSON(e.Fields)); err != nil {
				return err
			}
		}
		if last-forgotten <= Seq(j.limits.keep+j.limits.slack) {
			return nil
		}
		forgotten = last - Seq(j.limits.keep)
		if _, err := tx.ExecContext(ctx, "DELETE FROM events WHERE seq <= ?", forgotten); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE event_marks SET forgotten = ?", forgotten)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range batch {
		line := []any{"event", e.Kind, "cause", e.Cause}
		for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
			line = append(line, name, e.Fields[name])
		}
		j.log.Info("sandbox", line...)
	}
	if lost > 0 {
		j.log.Error("events were lost: the disk accepted no writes for too long", "count", lost)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue, j.lost, j.last, j.forgotten = j.queue[len(batch):], j.lost-lost, last, forgotten
	j.arrived.Notify()
	return nil
}

// Last returns the number of the newest event.
func (j *Journal) Last() Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

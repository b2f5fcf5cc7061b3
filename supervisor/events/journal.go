package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/store"
)

const (
	// Keep is how many events the database keeps at least, in a few megabytes: months of
	// daily use, or hours of agents that dispatch as many tasks as they may.
	Keep = 10_000
	// slack is how many more it may have, so that deletions are rare.
	slack = 500
	// maxUnkept is how many events may wait for the disk, and how many are in memory
	// for followers.
	maxUnkept = 1_000
)

type limits struct{ keep, slack, unkept int }

// Journal is the only writer of a database's events. Its methods may be called from any
// goroutine.
//
// An event is in memory first, so that followers see it at once even if the disk is slow
// or full. It is on the disk when Keep returns.
type Journal struct {
	db      *store.DB
	limits  limits
	writing chan struct{} // holds the token of the one who writes to the database
	rows    int           // in the database; guarded by the token

	mu       sync.Mutex
	recent   []Event         // the newest, oldest first, with all that are not on the disk
	before   Seq             // recent begins after it
	last     Seq             // the newest event
	kept     Seq             // the newest on the disk
	reserved Seq             // the highest number that may be used
	arrived  notify.Notifier // notified of every event
}

// Open opens the journal of a database. Close it before the database.
func Open(ctx context.Context, db *store.DB) (*Journal, error) {
	return open(ctx, db, limits{Keep, slack, maxUnkept})
}

func open(ctx context.Context, db *store.DB, limits limits) (*Journal, error) {
	j := &Journal{db: db, limits: limits, writing: make(chan struct{}, 1)}
	err := db.Write(ctx, "open event journal", func(tx *sql.Tx) error {
		// A killed journal may have used these numbers without writing them.
		if err := tx.QueryRowContext(ctx, "SELECT reserved FROM event_marks").Scan(&j.last); err != nil {
			return err
		}
		j.before, j.kept, j.reserved = j.last, j.last, j.last+Seq(limits.unkept)
		if _, err := tx.ExecContext(ctx, "UPDATE event_marks SET reserved = ?", j.reserved); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM events").Scan(&j.rows)
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Note adds an event and notifies followers. It does not write to the disk: Keep does. It
// fails if too many events wait for the disk.
func (j *Journal) Note(e Event) (Event, error) {
	e = e.bounded()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == j.reserved {
		return Event{}, fault.Newf(fault.Unavailable, "note event", string(e.Kind), "%d events wait for the disk", j.limits.unkept).
			Advise("Make room on the disk of the home.")
	}
	j.last++
	if e.Seq = j.last; e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC().Round(0) // as it will be read back
	j.recent = append(j.recent, e)
	j.arrived.Notify()
	return e, nil
}

// Keep writes all events that are not on the disk. After an error the next call retries.
func (j *Journal) Keep(ctx context.Context) error {
	j.mu.Lock()
	want := j.last
	j.mu.Unlock()
	select {
	case j.writing <- struct{}{}:
	case <-ctx.Done():
		return j.db.Fault("keep event", ctx.Err())
	}
	defer func() { <-j.writing }()

	j.mu.Lock()
	batch, kept := j.unkept(), j.kept
	j.mu.Unlock()
	if kept >= want {
		return nil // another call wrote it
	}
	last := batch[len(batch)-1].Seq
	reserved := last + Seq(j.limits.unkept)
	forgotten := 0
	err := j.db.Write(ctx, "keep event", func(tx *sql.Tx) error {
		for _, e := range batch {
			fields, err := json.Marshal(e.Fields)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO events VALUES (?, ?, ?, ?, ?)", e.Seq, e.Time.UnixNano(), e.Kind, e.Cause, string(fields)); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "UPDATE event_marks SET reserved = ?", reserved); err != nil {
			return err
		}
		var err error
		forgotten, err = j.forget(ctx, tx, j.rows+len(batch))
		return err
	})
	if err != nil {
		return err
	}
	j.rows += len(batch) - forgotten
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept, j.reserved = last, reserved
	if extra := len(j.recent) - len(j.unkept()) - j.limits.unkept; extra > 0 {
		j.before = j.recent[extra-1].Seq
		j.recent = append([]Event(nil), j.recent[extra:]...)
	}
	return nil
}

// unkept returns the part of recent that is not on the disk. The caller holds mu.
func (j *Journal) unkept() []Event {
	return after(j.recent, j.kept)
}

// forget deletes the oldest of too many rows and returns their number.
func (j *Journal) forget(ctx context.Context, tx *sql.Tx, rows int) (int, error) {
	if rows <= j.limits.keep+j.limits.slack {
		return 0, nil
	}
	var until Seq
	if err := tx.QueryRowContext(ctx, "SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?", j.limits.keep).Scan(&until); err != nil {
		return 0, err
	}
	done, err := tx.ExecContext(ctx, "DELETE FROM events WHERE seq <= ?", until)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE event_marks SET forgotten = ?", until)
	return int(n), err
}

// Last returns the number of the newest event.
func (j *Journal) Last() Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Close writes the remaining events. Do not call Note after it.
func (j *Journal) Close(ctx context.Context) error {
	if err := j.Keep(ctx); err != nil {
		return err
	}
	_, err := j.db.Exec(ctx, "close event journal", "UPDATE event_marks SET reserved = ?", j.Last())
	return err
}

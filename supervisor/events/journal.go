package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"

	"osaurus-sandbox/supervisor/store"

	"osaurus-sandbox/internal/notify"
)

const (
	// Keep is how many events the database keeps at least, in a few megabytes: months
	// of a sandbox that is used daily, and some hours of one whose agents dispatch all
	// the tasks that they may.
	Keep = 10_000
	// slack is how many more it may hold, so that not every event costs a deletion.
	slack = 500
	// maxUnkept is how many events may wait for a disk that takes nothing, and
	// how many of the newest are held in memory for those who follow.
	maxUnkept = 1_000
)

type limits struct{ keep, slack, unkept int }

// Journal is the one writer of a database's events. Its methods may be called
// at once by many.
//
// An event is in memory first: whoever follows sees it at once, also while the
// disk is slow, full or frozen. It is on the disk when Keep returns.
type Journal struct {
	db      *store.DB
	limits  limits
	writing chan struct{} // holds one token: whoever has it writes to the database
	rows    int           // in the database; for whoever has the token

	mu       sync.Mutex
	recent   []Event         // the newest, oldest first; all that are not yet on the disk are here
	before   Seq             // every event up to here that is kept is on the disk; recent begins after it
	last     Seq             // the newest event, or where the last life of the journal ended
	kept     Seq             // the newest on the disk
	reserved Seq             // the highest number that may be given
	arrived  notify.Notifier // rung with every event
}

// Open opens the journal of a database that was opened for writing. Close
// comes before the database's.
func Open(ctx context.Context, db *store.DB) (*Journal, error) {
	return open(ctx, db, limits{Keep, slack, maxUnkept})
}

func open(ctx context.Context, db *store.DB, limits limits) (*Journal, error) {
	j := &Journal{db: db, limits: limits, writing: make(chan struct{}, 1)}
	err := db.Write(ctx, "open event journal", func(tx *sql.Tx) error {
		// Numbers that a killed journal may have given, unkept, are not given again.
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

// Note gives an event its number and time and shows it to all who follow. It
// touches no disk: Keep does. Only when very many wait for a disk that takes
// nothing is an event refused.
func (j *Journal) Note(e Event) (Event, error) {
	e, err := e.check()
	if err != nil {
		return Event{}, err
	}
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

// Keep writes all that was noted and is not yet on the disk. After an error the
// next one tries again.
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
		return nil // somebody else wrote it
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

// unkept is the part of recent that is not on the disk. It is called with mu held.
func (j *Journal) unkept() []Event {
	return after(j.recent, j.kept)
}

// forget deletes the oldest of too many rows and says how many.
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

// Last is the number of the newest event: to follow only what is yet to come,
// read after it.
func (j *Journal) Last() Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Close writes what still waits for the disk. Nothing may be noted after it.
func (j *Journal) Close(ctx context.Context) error {
	if err := j.Keep(ctx); err != nil {
		return err
	}
	return j.db.Write(ctx, "close event journal", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE event_marks SET reserved = ?", j.Last())
		return err
	})
}

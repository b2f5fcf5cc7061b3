package audit

import (
	"cmp"
	"context"
	"database/sql"
	"iter"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

// page is how many entries are read at a time.
const page = 256

// recordLimit is the time limit of Record: a busy disk takes a moment, and one that hangs should not
// block callers.
const recordLimit = 10 * time.Second

// Log is the audit in a database. Its methods may be called from any goroutine.
//
// Entries are never deleted. An entry takes about 100 bytes on the disk besides
// its texts; a million take some 200 MB.
type Log struct{ db *store.DB }

// New returns the audit of a database.
func New(db *store.DB) *Log { return &Log{db} }

// Record adds an entry and returns it as recorded. It is on the disk when Record returns
// nil, and not in the log when it returns an error. The end of the context does not keep it from recording.
func (l *Log) Record(ctx context.Context, e Entry) (Entry, error) {
	const op = "record in audit"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer cancel()
	e, err := e.check()
	if err != nil {
		return Entry{}, err
	}
	err = l.db.Write(ctx, op, func(tx *sql.Tx) error {
		before, err := lastInTable(ctx, tx)
		if err != nil {
			return err
		}
		// If the end of the table was deleted, numbers and chain continue after it, so
		// that Verify finds the gap.
		e.Seq, e.Time = before.seq+1, time.Now().UTC()
		e.Hash = e.chain(before.hash)
		if _, err := tx.ExecContext(ctx, "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			e.Seq, e.Time.UnixNano(), e.UID, e.Agent, e.Client, e.Action, e.Subject, e.Outcome, e.Detail, e.Hash[:]); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE audit_head SET seq = ?, hash = ?", e.Seq, e.Hash[:])
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// Filter selects entries. The zero Filter selects all.
type Filter struct {
	Since  time.Time        // not older than this
	Agent  config.AgentName // only of this agent
	Before Seq              // only smaller numbers
	Limit  int              // at most so many
}

// List yields the selected entries, newest first.
func (l *Log) List(ctx context.Context, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		n := 0
		for e, err := range store.Pages(page, func(last Entry) ([]Entry, error) { return l.page(ctx, f, cmp.Or(last.Seq, f.Before)) }) {
			if n++; !yield(e, err) || n == f.Limit {
				return
			}
		}
	}
}

func (l *Log) page(ctx context.Context, f Filter, before Seq) ([]Entry, error) {
	query, args := "SELECT * FROM audit WHERE true", []any{}
	if !f.Since.IsZero() {
		query, args = query+" AND time >= ?", append(args, f.Since.UnixNano())
	}
	if f.Agent != "" {
		query, args = query+" AND agent = ?", append(args, f.Agent)
	}
	if before > 0 {
		query, args = query+" AND seq < ?", append(args, before)
	}
	return store.Select(ctx, l.db, "list audit", scan, query+" ORDER BY seq DESC LIMIT ?", append(args, page)...)
}

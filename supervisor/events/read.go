package events

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

// page is how many events are read from the database at a time: no reader
// keeps a transaction open while its client is slow.
const page = 256

// Subscribe yields every event after a number, first those that are kept, then
// each as it happens, in order and without end. Nobody waits for a reader: one
// so slow that events are forgotten before it reads them is given one event of
// kind Gap in their place, and goes on after them. The sequence ends with an
// error when the context does. A number that was never given is
// fault.InvalidArgs: it is from another database.
func (j *Journal) Subscribe(ctx context.Context, after Seq) iter.Seq2[Event, error] {
	return j.read(ctx, after, true)
}

// List yields the kept events after a number, up to the newest there is.
func (j *Journal) List(ctx context.Context, after Seq) iter.Seq2[Event, error] {
	return j.read(ctx, after, false)
}

func (j *Journal) read(ctx context.Context, cursor Seq, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if last := j.Last(); cursor < 0 || cursor > last {
			yield(Event{}, fault.Newf(fault.InvalidArgs, "read events", fmt.Sprintf("after %d", cursor), "the newest is %d", last).
				Advise("Begin at 0: all that is kept."))
			return
		}
		Follow(ctx, cursor, follow, j.next)(yield)
	}
}

// next is what Follow asks for.
func (j *Journal) next(ctx context.Context, cursor Seq) ([]Event, Seq, <-chan struct{}, error) {
	j.mu.Lock()
	before, last, arrived := j.before, j.last, j.arrived.Next()
	recent := slices.Clone(after(j.recent, cursor))
	j.mu.Unlock()
	if cursor >= before {
		return recent, last, arrived, nil
	}
	some, err := j.fromDisk(ctx, cursor)
	if err != nil {
		return nil, cursor, nil, err
	}
	if len(some) == 0 {
		return nil, before, nil, nil // numbers that a crash left out
	}
	return some, some[len(some)-1].Seq, nil, nil
}

// fromDisk reads a page of what is in the database after the cursor, or the gap
// that begins there.
func (j *Journal) fromDisk(ctx context.Context, cursor Seq) (some []Event, err error) {
	err = j.db.Read(ctx, "read events", func(tx *sql.Tx) error {
		var forgotten Seq
		if err := tx.QueryRowContext(ctx, "SELECT forgotten FROM event_marks").Scan(&forgotten); err != nil {
			return err
		}
		if cursor < forgotten {
			some = []Event{{Seq: forgotten, Kind: Gap, Cause: "these events are not kept any more",
				Fields: map[string]string{"from": fmt.Sprint(cursor + 1), "to": fmt.Sprint(forgotten)}}}
			return nil
		}
		some, err = store.All(ctx, tx, scan, "SELECT seq, time, kind, cause, fields FROM events WHERE seq > ? ORDER BY seq LIMIT ?", cursor, page)
		return err
	})
	return some, err
}

// after is the part of events, which are in order, that is after a number.
func after(events []Event, seq Seq) []Event {
	at, _ := slices.BinarySearchFunc(events, seq+1, func(e Event, s Seq) int { return int(e.Seq - s) })
	return events[at:]
}

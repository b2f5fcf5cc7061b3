package events

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

// pageSize is how many events are read at a time, so that no transaction is open while a client
// is slow.
const pageSize = 256

// Read yields the stored events after a number in order, and with follow then new ones until the
// context ends. A reader so slow that events are deleted before it reads them gets one event of
// kind Gap instead. A number that does not exist yet is fault.InvalidArgs.
func (j *Journal) Read(ctx context.Context, cursor Seq, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		_ = j.writeQueue() // what was noted before; write reports errors
		if last := j.Last(); cursor < 0 || cursor > last {
			yield(Event{}, fault.Newf(fault.InvalidArgs, "read events", fmt.Sprintf("after %d", cursor), "the newest is %d", last).
				Advise("Start at 0 to read all."))
			return
		}
		Follow(ctx, cursor, follow, j.next)(yield)
	}
}

// next returns a page for Follow.
func (j *Journal) next(ctx context.Context, cursor Seq) ([]Event, Seq, <-chan struct{}, error) {
	arrived := j.arrived.Next() // before reading, so that no event is missed
	some, err := j.page(ctx, cursor)
	if err != nil || len(some) == 0 {
		return nil, cursor, arrived, err
	}
	return some, some[len(some)-1].Seq, nil, nil
}

// page reads a page after the cursor, or returns the gap there.
func (j *Journal) page(ctx context.Context, cursor Seq) (some []Event, err error) {
	err = j.db.Read(ctx, "read events", func(tx *sql.Tx) error {
		var forgotten Seq
		if err := tx.QueryRowContext(ctx, "SELECT forgotten FROM event_marks").Scan(&forgotten); err != nil {
			return err
		}
		if cursor < forgotten {
			some = []Event{{Seq: forgotten, Kind: Gap, Cause: "these events are no longer kept",
				Fields: map[string]string{"from": fmt.Sprint(cursor + 1), "to": fmt.Sprint(forgotten)}}}
			return nil
		}
		some, err = store.All(ctx, tx, scan, "SELECT seq, time, kind, cause, fields FROM events WHERE seq > ? ORDER BY seq LIMIT ?", cursor, pageSize)
		return err
	})
	return some, err
}

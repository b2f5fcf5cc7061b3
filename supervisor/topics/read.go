package topics

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
)

const (
	// page is how many events are read from the database at a time: some megabytes
	// at most, and no reader keeps a transaction open while its client is slow.
	page = 64
	// maxPatterns bounds what one reader asks for.
	maxPatterns = 64
)

// Pattern is a topic, or with a "*" at its end all that begin so.
type Pattern string

// ParsePattern reads which topics are meant.
func ParsePattern(text string) (Pattern, error) {
	begin, all := strings.CutSuffix(text, "*")
	if all && begin == "" {
		return Pattern(text), nil
	}
	if _, err := bridge.ParseTopic(begin); err != nil {
		return "", err
	}
	return Pattern(text), nil
}

func (p Pattern) matches(topic bridge.Topic) bool {
	begin, all := strings.CutSuffix(string(p), "*")
	return string(topic) == begin || all && strings.HasPrefix(string(topic), begin)
}

// Filter says which events are meant.
type Filter struct {
	// Agent has what concerns it: what its own programs tell, and what is for all.
	// Empty has everything.
	Agent config.AgentID
	// After has only greater numbers.
	After events.Seq
	// Topics have only those that match one of them. None has all.
	Topics []Pattern
}

// Subscribe yields what is kept, and then what is told, without end, until the
// context's. Nobody waits for a reader: one so slow that events are forgotten
// before it reads them is told of a Gap. A number that was never given is
// fault.InvalidArgs, an agent that is not there fault.NotFound.
func (t *Topics) Subscribe(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	return t.read(ctx, f, true)
}

// Last is the number of the newest event that was told, of whomever.
func (t *Topics) Last(ctx context.Context) (last events.Seq, err error) {
	err = t.db.Read(ctx, "read events", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'topics'), 0)").Scan(&last)
	})
	return last, err
}

// List yields what is kept.
func (t *Topics) List(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	return t.read(ctx, f, false)
}

// cursor is where a reader is.
type cursor struct {
	at   events.Seq // it has read up to here
	told events.Seq // it was told that there are gaps up to here
}

func (t *Topics) read(ctx context.Context, f Filter, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if len(f.Topics) > maxPatterns {
			yield(Event{}, fault.Newf(fault.InvalidArgs, "read events", "", "%d topics are more than %d", len(f.Topics), maxPatterns).Advise("Ask for all, or for a beginning with * at its end."))
			return
		}
		events.Follow(ctx, cursor{at: f.After}, follow, func(ctx context.Context, c cursor) ([]Event, cursor, <-chan struct{}, error) {
			return t.next(ctx, f, c)
		})(yield)
	}
}

// next is what events.Follow asks for.
func (t *Topics) next(ctx context.Context, f Filter, c cursor) (list []Event, _ cursor, more <-chan struct{}, _ error) {
	more = t.told.Next() // before it is looked what there is
	err := t.db.Read(ctx, "read events", func(tx *sql.Tx) error {
		if err := check(ctx, tx, f, c.at); err != nil {
			return err
		}
		var gone events.Seq // the last that is not kept of what is meant
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(until), 0) FROM topic_marks WHERE ?1 IN ('', agent) OR shared", f.Agent).Scan(&gone); err != nil {
			return err
		}
		if gone > max(c.at, c.told) {
			list = append(list, Event{Seq: c.at, Time: time.Now().UTC(), Gap: &Gap{c.at + 1, gone}})
			c.told = gone
		}
		found, err := store.All(ctx, tx, scan, `SELECT seq, time, topic, agent, source, payload FROM topics
			WHERE seq > ?1 AND (?2 IN ('', agent) OR shared) ORDER BY seq LIMIT ?3`, c.at, f.Agent, page)
		for _, e := range found {
			if c.at = e.Seq; f.has(e.Topic) {
				list = append(list, e)
			}
		}
		if len(found) == page {
			more = nil // there may be more at once
		}
		return err
	})
	return list, c, more, err
}

// check refuses what cannot be meant.
func check(ctx context.Context, tx *sql.Tx, f Filter, at events.Seq) error {
	const op = "read events"
	var last events.Seq
	var there bool
	if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'topics'), 0), ?1 = '' OR EXISTS (SELECT 1 FROM agents WHERE id = ?1)", f.Agent).
		Scan(&last, &there); err != nil {
		return err
	}
	switch {
	case at < 0 || at > last:
		return fault.Newf(fault.InvalidArgs, op, fmt.Sprintf("after %d", at), "the newest is %d", last).Advise("Begin at 0: all that is kept.")
	case !there:
		return fault.Newf(fault.NotFound, op, string(f.Agent), "there is no such agent").Advise("See `osaurus-sandbox agent list`.")
	}
	return nil
}

func (f Filter) has(topic bridge.Topic) bool {
	return len(f.Topics) == 0 || slices.ContainsFunc(f.Topics, func(p Pattern) bool { return p.matches(topic) })
}

func scan(row store.Row) (Event, error) {
	var e Event
	var nanos int64
	var payload string
	err := row.Scan(&e.Seq, &nanos, &e.Topic, &e.Agent, &e.Source, &payload)
	e.Time, e.Payload = time.Unix(0, nanos).UTC(), json.RawMessage(payload)
	return e, err
}

package services

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
)

const (
	// SharedTopics is the prefix of topics that all agents see. Events of other topics
	// are seen only by the agent whose program sent them.
	SharedTopics = "shared:"
	MaxPayload   = 64 << 10
	// KeptEvents is how many events of each agent are kept, so that no agent displaces
	// the events of another.
	KeptEvents = 1_000

	eventPage   = 64 // events read from the database at a time, some megabytes at most
	maxPatterns = 64 // of one reader
)

// Topics stores the events of each agent's programs durably and passes them to
// subscribers. Deleting an agent deletes its events. Topics implements bridge.Events.
type Topics struct {
	db      *store.DB
	clean   Clean
	keep    int
	emitted notify.Notifier
}

var _ bridge.Events = (*Topics)(nil)

// NewTopics returns the events in a database.
func NewTopics(db *store.DB, clean Clean) *Topics {
	return &Topics{db: db, clean: clean, keep: KeptEvents}
}

// Emit stores an event and wakes subscribers. An empty payload means {}.
func (t *Topics) Emit(ctx context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) (err error) {
	const op = "emit event"
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	if t.clean(ctx, who.Agent, string(topic)) != string(topic) {
		return fault.Newf(fault.InvalidArgs, op, "", "its type contains the value of a secret").Advise("Call it something else.")
	}
	if clean := t.clean(ctx, who.Agent, string(payload)); json.Valid([]byte(clean)) || !json.Valid(payload) {
		payload = json.RawMessage(clean)
	} else if payload, err = json.Marshal(clean); err != nil { // the secret was not within a string
		return err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, payload); err != nil {
		return fault.Newf(fault.InvalidArgs, op, string(topic), "the payload is not JSON: %w", err).Advise("Send a JSON value.")
	}
	if text.Len() > MaxPayload {
		return fault.Newf(fault.InvalidArgs, op, string(topic), "a payload of %d bytes is more than the %d allowed", text.Len(), MaxPayload).
			Advise("Write it to a file and send the path.")
	}
	shared := strings.HasPrefix(string(topic), SharedTopics)
	err = t.db.Write(ctx, op, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO topics (agent, shared, topic, source, payload, time) VALUES (?, ?, ?, ?, ?, ?)",
			who.Agent, shared, topic, "sandbox:"+string(who.User), text.String(), time.Now().UnixNano()); err != nil {
			return err
		}
		return t.trim(ctx, tx, who.Agent)
	})
	if err == nil {
		t.emitted.Notify()
	}
	return err
}

// trim deletes an agent's oldest events beyond the limit and records up to where.
func (t *Topics) trim(ctx context.Context, tx *sql.Tx, agent config.AgentID) error {
	var until bridge.EventSeq
	err := tx.QueryRowContext(ctx, "SELECT seq FROM topics WHERE agent = ? ORDER BY seq DESC LIMIT 1 OFFSET ?", agent, t.keep).Scan(&until)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO topic_marks (agent, shared, until)
		SELECT agent, shared, max(seq) FROM topics WHERE agent = ? AND seq <= ? GROUP BY shared
		ON CONFLICT (agent, shared) DO UPDATE SET until = excluded.until`, agent, until); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM topics WHERE agent = ? AND seq <= ?", agent, until)
	return err
}

// Last returns the number of the newest event of any agent.
func (t *Topics) Last(ctx context.Context) (bridge.EventSeq, error) {
	last, _, err := store.Find(ctx, t.db, "read events", store.Value[bridge.EventSeq], "SELECT seq FROM sqlite_sequence WHERE name = 'topics'")
	return last, err
}

// topicCursor is the position of a reader.
type topicCursor struct {
	at  bridge.EventSeq // read up to here
	gap bridge.EventSeq // gaps are reported up to here
}

// Read yields the stored events of a filter, and with follow then new ones until the context ends.
// A reader too slow to read all gets a Gap. A number that does not exist yet is fault.InvalidArgs,
// an unknown agent fault.NotFound.
func (t *Topics) Read(ctx context.Context, f bridge.EventFilter, follow bool) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if len(f.Topics) > maxPatterns {
			yield(bridge.Event{}, fault.Newf(fault.InvalidArgs, "read events", "", "%d topics are more than the %d allowed", len(f.Topics), maxPatterns).Advise("Use a prefix with *, or no filter."))
			return
		}
		events.Follow(ctx, topicCursor{at: f.After}, follow, func(ctx context.Context, c topicCursor) ([]bridge.Event, topicCursor, <-chan struct{}, error) {
			return t.next(ctx, f, c)
		})(yield)
	}
}

// next reads a page of events for events.Follow.
func (t *Topics) next(ctx context.Context, f bridge.EventFilter, c topicCursor) (list []bridge.Event, _ topicCursor, more <-chan struct{}, _ error) {
	more = t.emitted.Next() // before reading, so that no event is missed
	err := t.db.Read(ctx, "read events", func(tx *sql.Tx) error {
		if err := checkFilter(ctx, tx, f, c.at); err != nil {
			return err
		}
		var gone bridge.EventSeq // the last deleted event
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(until), 0) FROM topic_marks WHERE ?1 IN ('', agent) OR shared", f.Agent).Scan(&gone); err != nil {
			return err
		}
		if gone > max(c.at, c.gap) {
			list = append(list, bridge.Event{Seq: c.at, Time: time.Now().UTC(), Gap: &bridge.EventGap{From: c.at + 1, To: gone}})
			c.gap = gone
		}
		found, err := store.All(ctx, tx, scanEvent, `SELECT seq, time, topic, agent, source, payload FROM topics
			WHERE seq > ?1 AND (?2 IN ('', agent) OR shared) ORDER BY seq LIMIT ?3`, c.at, f.Agent, eventPage)
		for _, e := range found {
			if c.at = e.Seq; has(f, e.Topic) {
				list = append(list, e)
			}
		}
		if len(found) == eventPage {
			more = nil // there may be more at once
		}
		return err
	})
	return list, c, more, err
}

// checkFilter refuses numbers and agents that do not exist.
func checkFilter(ctx context.Context, tx *sql.Tx, f bridge.EventFilter, at bridge.EventSeq) error {
	const op = "read events"
	var last bridge.EventSeq
	var exists bool
	if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'topics'), 0), ?1 = '' OR EXISTS (SELECT 1 FROM agents WHERE id = ?1)", f.Agent).
		Scan(&last, &exists); err != nil {
		return err
	}
	switch {
	case at < 0 || at > last:
		return fault.Newf(fault.InvalidArgs, op, fmt.Sprintf("after %d", at), "the newest is %d", last).Advise("Start at 0 to read all.")
	case !exists:
		return fault.Newf(fault.NotFound, op, string(f.Agent), "no such agent").Advise(listAgents)
	}
	return nil
}

func has(f bridge.EventFilter, topic bridge.Topic) bool {
	return len(f.Topics) == 0 || slices.ContainsFunc(f.Topics, func(t bridge.Topics) bool { return t.Holds(topic) })
}

func scanEvent(row store.Row) (e bridge.Event, err error) {
	err = row.Scan(&e.Seq, store.Time(&e.Time), &e.Topic, &e.Agent, &e.Source, (*[]byte)(&e.Payload))
	return e, err
}

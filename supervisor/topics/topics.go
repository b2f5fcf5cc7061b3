// Package topics keeps and spreads what programs of agents have to tell: each agent's for itself, and what is meant for all.
package topics

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
	// Shared begins the topics that are for all agents. What is told under any
	// other one concerns the agent alone whose program tells it.
	Shared = "shared:"
	// MaxPayload bounds what an event carries: it says what happened, files are in
	// the workspace. More is refused.
	MaxPayload = 64 << 10
	// Keep is how many events of each agent are kept, of those for itself and those for
	// all together: no agent pushes out what another one has told.
	Keep = 1_000
)

// Event is what a program of an agent has told.
type Event struct {
	Seq     events.Seq // upwards over all agents; none is given twice
	Time    time.Time
	Topic   bridge.Topic
	Agent   config.AgentID
	Source  string // "sandbox:" and the agent's Linux user
	Payload json.RawMessage
	// Gap, if not nil, is in place of an event.
	Gap *Gap
}

// Gap are numbers of which not all are kept any more. A reader that goes on after
// Seq is told of what is left of them.
type Gap struct{ From, To events.Seq }

// Topics are the part of the database that holds what was told. It goes with the
// agent. What Topics was told is on the disk when Emit returns. Topics implements
// bridge.Events.
type Topics struct {
	db   *store.DB
	keep int
	told notify.Bell
}

var _ bridge.Events = (*Topics)(nil)

// New returns the topics in a database that was opened for writing.
func New(db *store.DB) *Topics { return &Topics{db: db, keep: Keep} }

// Emit keeps an event and tells all who follow. A payload that is empty is {}.
func (t *Topics) Emit(ctx context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) error {
	const op = "emit event"
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	var text bytes.Buffer
	if err := json.Compact(&text, payload); err != nil {
		return fault.Newf(fault.InvalidArgs, op, string(topic), "its payload is not JSON: %w", err).Advise("Write a JSON value.")
	}
	if text.Len() > MaxPayload {
		return fault.Newf(fault.InvalidArgs, op, string(topic), "a payload of %d bytes is more than %d", text.Len(), MaxPayload).
			Advise("Keep it in a file and tell where that is.")
	}
	shared := strings.HasPrefix(string(topic), Shared)
	err := t.db.Write(ctx, op, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO topics (agent, shared, topic, source, payload, time) VALUES (?, ?, ?, ?, ?, ?)",
			who.Agent, shared, topic, "sandbox:"+string(who.User), text.String(), time.Now().UnixNano()); err != nil {
			return err
		}
		return t.forget(ctx, tx, who.Agent)
	})
	if err == nil {
		t.told.Ring()
	}
	return err
}

// forget deletes what an agent has told before its newest events, and marks up to
// where that was.
func (t *Topics) forget(ctx context.Context, tx *sql.Tx, agent config.AgentID) error {
	var until events.Seq
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

// Package events keeps the journal of the sandbox's events, which are numbered and can be read and followed from any number.
package events

import (
	"time"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/store"
)

// maxText bounds a cause and a field's value, which may quote the guest. Longer ones are cut.
const maxText = 2 << 10

// Kind is the kind of an event: "state.changed".
type Kind string

// Gap is the kind of an event that stands for events that were deleted. Its Seq is that of
// the last one.
const Gap Kind = "gap"

// Seq numbers the events of a database from 1. Numbers are never reused.
type Seq int64

// Event is something that happened. The journal sets Seq, and Time if it is zero.
type Event struct {
	Seq    Seq
	Time   time.Time
	Kind   Kind
	Cause  string            // why, for a person: "the guest did not answer for 5 s"
	Fields map[string]string // for programs: "from": "running"
}

// Recorder records events. Note does not block. The fields stay the caller's.
type Recorder interface {
	Note(Event)
}

// bounded returns the event with a copy of its fields, without long texts and empty ones.
func (e Event) bounded() Event {
	e.Cause = printable.Cut(e.Cause, maxText)
	fields := make(map[string]string, len(e.Fields)) // the caller may change its own
	for name, value := range e.Fields {
		if value != "" {
			fields[name] = printable.Cut(value, maxText)
		}
	}
	e.Fields = fields
	return e
}

// scan reads a row: seq, time, kind, cause, fields.
func scan(row store.Row) (e Event, err error) {
	err = row.Scan(&e.Seq, store.Time(&e.Time), &e.Kind, &e.Cause, store.JSON(&e.Fields))
	return e, err
}

// Package events is the journal of what happens to the sandbox: numbered, kept in the database, and read from any number on.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/store"
)

const (
	// maxText bounds a cause and a field's value, which may quote what the
	// guest said: longer ones are cut.
	maxText = 2 << 10
	// maxFields bounds what the sandbox itself attaches to an event.
	maxFields = 16
)

// Kind says what happened: "state.changed".
type Kind string

// Gap is the kind of an event that is not in the journal but stands for those
// that are not kept any more. Its Seq is the last of them, so reading on after
// it misses nothing further.
const Gap Kind = "gap"

var kindText = regexp.MustCompile(`^[a-z][a-z0-9]*([._-][a-z0-9]+)*$`)

// maxKind bounds a kind; they are words, not sentences.
const maxKind = 64

// Seq numbers the events of a database upwards from 1. It never goes back, and
// no two events have the same; after a crash some numbers are left out.
type Seq int64

// Event is one thing that happened. Seq is the journal's to set, and Time too
// if it is zero.
type Event struct {
	Seq    Seq
	Time   time.Time
	Kind   Kind
	Cause  string            // why, for a person: "the guest did not answer for 5 s"
	Fields map[string]string // what else a program wants to know: "from": "running"
}

// Recorder takes note of events: a journal, and whoever hears of them too. It waits
// for nothing.
type Recorder interface {
	Note(Event)
}

// check refuses what only a mistake of the caller's can be, and cuts what is
// merely long.
func (e Event) check() (Event, error) {
	switch {
	case len(e.Kind) > maxKind || !kindText.MatchString(string(e.Kind)) || e.Kind == Gap:
		return e, invalid(fmt.Sprintf("kind %.80q", e.Kind), `a kind is lower-case words joined by dots and dashes, at most 64 bytes, and not "gap"`)
	case len(e.Fields) > maxFields:
		return e, invalid(string(e.Kind), fmt.Sprintf("%d fields are more than %d", len(e.Fields), maxFields))
	}
	e.Cause = printable.Cut(e.Cause, maxText)
	fields := make(map[string]string, len(e.Fields)) // the caller may go on using its own
	for name, value := range e.Fields {
		if len(name) > maxKind || !utf8.ValidString(name) {
			return e, invalid(string(e.Kind), fmt.Sprintf("the field name %.80q", name))
		}
		fields[name] = printable.Cut(value, maxText)
	}
	e.Fields = fields
	return e, nil
}

func invalid(subject, why string) error {
	return fault.New(fault.InvalidArgs, "note event", subject, errors.New(why))
}

// scan makes an event of a row: seq, time, kind, cause, fields.
func scan(row store.Row) (Event, error) {
	var e Event
	var fields string
	if err := row.Scan(&e.Seq, store.Time(&e.Time), &e.Kind, &e.Cause, &fields); err != nil {
		return e, err
	}
	if err := json.Unmarshal([]byte(fields), &e.Fields); err != nil {
		return e, fmt.Errorf("the fields of event %d: %w", e.Seq, err)
	}
	return e, nil
}

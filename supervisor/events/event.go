// Package events keeps the journal of the sandbox's events, which are numbered and can be read and followed from any number.
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
	// maxText bounds a cause and a field's value, which may quote the guest. Longer ones
	// are cut.
	maxText = 2 << 10
	// maxFields bounds the fields of an event.
	maxFields = 16
)

// Kind is the kind of an event: "state.changed".
type Kind string

// Gap is the kind of an event that stands for events that were deleted. Its Seq is that of
// the last one.
const Gap Kind = "gap"

var kindText = regexp.MustCompile(`^[a-z][a-z0-9]*([._-][a-z0-9]+)*$`)

// maxKind bounds a kind.
const maxKind = 64

// Seq numbers the events of a database from 1. Numbers are never reused; after a crash some
// are left out.
type Seq int64

// Event is something that happened. The journal sets Seq, and Time if it is zero.
type Event struct {
	Seq    Seq
	Time   time.Time
	Kind   Kind
	Cause  string            // why, for a person: "the guest did not answer for 5 s"
	Fields map[string]string // for programs: "from": "running"
}

// Recorder records events. It does not block.
type Recorder interface {
	Note(Event)
}

// check refuses invalid events and cuts long texts.
func (e Event) check() (Event, error) {
	switch {
	case len(e.Kind) > maxKind || !kindText.MatchString(string(e.Kind)) || e.Kind == Gap:
		return e, invalid(fmt.Sprintf("kind %.80q", e.Kind), `a kind is lower-case words joined by dots and dashes, at most 64 bytes, and not "gap"`)
	case len(e.Fields) > maxFields:
		return e, invalid(string(e.Kind), fmt.Sprintf("%d fields are more than %d", len(e.Fields), maxFields))
	}
	e.Cause = printable.Cut(e.Cause, maxText)
	fields := make(map[string]string, len(e.Fields)) // the caller may change its own
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

// scan reads a row: seq, time, kind, cause, fields.
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

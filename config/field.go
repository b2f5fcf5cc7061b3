package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// field describes a setting: its key, its values and how to get and set it.
type field[S any] struct {
	key     string
	meaning string // its purpose, for people
	effect  Effect
	allowed string                            // its valid values, for people
	zero    string                            // the special meaning of 0, if it has one
	raw     func(text string) json.RawMessage // turns a value from a command line into JSON, which may be invalid
	isList  bool                              // KEY+ and KEY- change single items
	set     func(*S, json.RawMessage) error
	get     func(*S) any
}

// Effect is when a changed setting takes effect.
type Effect string

const (
	Live      Effect = "live"       // at once
	NextStart Effect = "next start" // at the next start of the VM
)

// live marks a field that takes effect at once.
func live[S any](f field[S]) field[S] {
	f.effect = Live
	return f
}

// table lists settings in display order.
type table[S any] []field[S]

func (t table[S]) find(key string) (field[S], bool) {
	i := slices.IndexFunc(t, func(f field[S]) bool { return f.key == key })
	if i < 0 {
		return field[S]{}, false
	}
	return t[i], true
}

func (t table[S]) keys() []string {
	keys := make([]string, len(t))
	for i, f := range t {
		keys[i] = f.key
	}
	return keys
}

// Description describes a setting for people.
type Description struct {
	Key, Meaning, Allowed string
	Default               string // in the form of a command line
	Effect                Effect
}

func (t table[S]) describe(defaults S) []Description {
	list := make([]Description, len(t))
	for i, f := range t {
		list[i] = Description{f.key, f.meaning, f.allowed, spelled(f.get(&defaults)), t.effect(f.key)}
	}
	return list
}

// spelled returns a value in the form of a command line: see field.raw.
func spelled(value any) string {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(value)
	}
	return strings.Join(itemsOf(value), ",")
}

// itemsOf returns the items of a list as texts.
func itemsOf(value any) []string {
	v := reflect.ValueOf(value)
	items := make([]string, v.Len())
	for i := range items {
		items[i] = fmt.Sprint(v.Index(i))
	}
	return items
}

// effect returns when a key takes effect; unknown keys are NextStart.
func (t table[S]) effect(key string) Effect {
	if f, ok := t.find(key); ok && f.effect != "" {
		return f.effect
	}
	return NextStart
}

// put sets a key from a command line's text, and returns its value as JSON.
func (t table[S]) put(s *S, key, text string) (json.RawMessage, error) {
	const op = "set"
	name, change := key, ""
	if i := len(key) - 1; i >= 0 && strings.ContainsAny(key[i:], "+-") {
		name, change = key[:i], key[i:]
	}
	f, ok := t.find(name)
	if !ok || change != "" && !f.isList {
		return nil, fault.Newf(fault.InvalidArgs, op, brief(json.RawMessage(key)), "unknown key").Advise(t.allowedKeys())
	}
	before := *s
	raw := f.raw(strings.TrimSpace(text))
	err := f.set(s, raw)
	if err == nil && change != "" {
		raw, err = f.change(s, change, itemsOf(f.get(&before)))
	}
	if err == nil {
		return raw, nil
	}
	*s = before
	if _, ours := errors.AsType[*fault.Error](err); ours {
		return nil, err
	}
	return nil, fault.New(fault.InvalidArgs, op, f.key, err).Advise(f.key + " is " + f.allowed + ".")
}

// change adds the items of a list to other items, or removes them there, and returns those as JSON.
func (f field[S]) change(s *S, change string, items []string) (json.RawMessage, error) {
	for _, item := range itemsOf(f.get(s)) { // canonical
		i := slices.Index(items, item)
		switch {
		case change == "+" && i < 0:
			items = append(items, item)
		case change == "-" && i < 0:
			return nil, fault.Newf(fault.NotFound, "set", f.key, "it has no %s", brief(quoted(item))).Advise("It is " + cmp.Or(strings.Join(items, ","), "empty") + ".")
		case change == "-":
			items = slices.Delete(items, i, i+1)
		}
	}
	raw, _ := json.Marshal(items) // texts always marshal
	return raw, f.set(s, raw)
}

// differences returns the keys whose values differ.
func (t table[S]) differences(a, b *S) []string {
	var keys []string
	for _, f := range t {
		if !reflect.DeepEqual(f.get(a), f.get(b)) {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// decode sets the fields that a document has. Other keys are errors unless ignore
// accepts them. Errors are *placedError.
func (t table[S]) decode(s *S, doc *document, ignore func(key string) bool) error {
	for _, m := range doc.members {
		f, known := t.find(m.key)
		switch {
		case !known && !ignore(m.key):
			return &placedError{m.keyAt, fmt.Errorf("%s: unknown key", brief(json.RawMessage(m.key))), t.allowedKeys()}
		case known:
			if err := f.set(s, m.value); err != nil {
				return &placedError{m.valAt, fmt.Errorf("%s: %w", m.key, err), m.key + " is " + f.allowed + "."}
			}
		}
	}
	return nil
}

func (t table[S]) allowedKeys() string { return "Allowed keys: " + strings.Join(t.keys(), ", ") + "." }

// marshal writes every setting under its key.
func (t table[S]) marshal(s *S) ([]byte, error) {
	var d document
	for _, f := range t {
		raw, err := json.Marshal(f.get(s))
		if err != nil {
			return nil, err
		}
		d.put(f.key, raw)
	}
	return d.bytes(), nil
}

// newField returns a field of type T, made of JSON of type J.
func newField[J, T, S any](key, meaning, allowed string, raw func(string) json.RawMessage, at func(*S) *T, parse func(J) (T, error)) field[S] {
	return field[S]{key: key, meaning: meaning, allowed: allowed, raw: raw,
		set: func(s *S, raw json.RawMessage) error {
			var read J
			if string(raw) == "null" || json.Unmarshal(raw, &read) != nil {
				return fmt.Errorf("%s is not %s", brief(raw), allowed)
			}
			v, err := parse(read)
			if err == nil {
				*at(s) = v
			}
			return err
		},
		get: func(s *S) any { return *at(s) },
	}
}

func boolField[S any](key, meaning string, at func(*S) *bool) field[S] {
	return newField(key, meaning, "true or false", verbatim, at, func(on bool) (bool, error) { return on, nil })
}

func intField[S any](key, meaning string, lo, hi int, at func(*S) *int) field[S] {
	return limitField(key, meaning, lo, hi, "", at)
}

// limitField returns a field of a number. If zero is not empty, it also accepts 0, which means that.
func limitField[S any](key, meaning string, lo, hi int, zero string, at func(*S) *int) field[S] {
	allowed := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if zero != "" {
		allowed += ", or 0 for " + zero
	}
	f := newField(key, meaning, allowed, verbatim, at, func(n int) (int, error) {
		if (n < lo || n > hi) && (n != 0 || zero == "") {
			return 0, fmt.Errorf("%d is out of range", n)
		}
		return n, nil
	})
	f.zero = zero
	return f
}

func textField[T ~string, S any](key, meaning, allowed string, parse func(string) (T, error), at func(*S) *T) field[S] {
	return newField(key, meaning, allowed, quoted, at, func(text string) (T, error) { return parseText(text, parse) })
}

func rulesField[S any](key, meaning string, at func(*S) *[]NetworkRule) field[S] {
	return listField(key, meaning, networkRuleShape, ParseNetworkRule, at)
}

func listField[T, S any](key, meaning, allowed string, parse func(string) (T, error), at func(*S) *[]T) field[S] {
	f := newField(key, meaning, "a list, each item "+allowed, listed, at, func(items []string) ([]T, error) {
		if len(items) > maxListItems {
			return nil, fmt.Errorf("%d items are more than %d", len(items), maxListItems)
		}
		list := make([]T, len(items))
		for i, item := range items {
			var err error
			if list[i], err = parseText(item, parse); err != nil {
				return nil, fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return list, nil
	})
	f.isList = true
	f.get = func(s *S) any { return append([]T{}, *at(s)...) } // never null
	return f
}

// verbatim, quoted and listed turn a value from a command line into JSON.

func verbatim(text string) json.RawMessage { return json.RawMessage(text) }

func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string always marshals
	return raw
}

func listed(text string) json.RawMessage {
	if strings.HasPrefix(text, "[") {
		return json.RawMessage(text)
	}
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	raw, _ := json.Marshal(items)
	return raw
}

func parseText[T any](text string, parse func(string) (T, error)) (T, error) {
	v, err := parse(text)
	if e, ok := errors.AsType[*fault.Error](err); ok {
		err = e.Err // the setting's own error has the rest
	}
	if err != nil {
		err = fmt.Errorf("%s is %w", brief(quoted(text)), err)
	}
	return v, err
}

// brief returns the beginning of a value, for errors.
func brief(raw json.RawMessage) string { return printable.Line(string(raw), 60) }

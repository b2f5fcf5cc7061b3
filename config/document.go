package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"osaurus-sandbox/internal/printable"
)

// document is a JSON object. It keeps the order of its members and the text of their
// values, so that unknown members survive a rewrite.
type document struct {
	members []member
}

type member struct {
	key          string
	value        json.RawMessage
	keyAt, valAt int // offsets in the text that was parsed
}

// placedError is an error at an offset of a document.
type placedError struct {
	at     int
	err    error
	advice string
}

func (e *placedError) Error() string { return e.err.Error() }

const correctFile = "Correct the file by hand, or move it away to use the defaults."

// parseDocument parses a JSON object in UTF-8 without duplicate keys. Errors are
// *placedError.
func parseDocument(text []byte) (*document, error) {
	if at := printable.InvalidUTF8(text); at >= 0 {
		return nil, &placedError{at, errors.New("not UTF-8 text"), correctFile}
	}
	var object map[string]json.RawMessage
	err := json.Unmarshal(text, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		at := 0
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = max(0, int(bad.Offset)-1)
		}
		return nil, &placedError{at, fmt.Errorf("not a JSON object: %w", err), correctFile}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	next := func() int { // the offset of the next token
		at := int(dec.InputOffset())
		return at + len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n,:"))
	}
	_, _ = dec.Token() // the brace; nothing below fails, since the text is valid
	d := &document{}
	for dec.More() {
		m := member{keyAt: next()}
		key, _ := dec.Token()
		m.key, _ = key.(string)
		m.valAt = next()
		_ = dec.Decode(&m.value)
		if d.index(m.key) >= 0 {
			return nil, &placedError{m.keyAt, fmt.Errorf("%s: duplicate key", m.key), correctFile}
		}
		d.members = append(d.members, m)
	}
	return d, nil
}

func (d *document) index(key string) int {
	return slices.IndexFunc(d.members, func(m member) bool { return m.key == key })
}

// put replaces the value of a key in its place, or adds the key at the end.
func (d *document) put(key string, value json.RawMessage) {
	if i := d.index(key); i >= 0 {
		d.members[i].value = value
		return
	}
	d.members = append(d.members, member{key: key, value: value})
}

// bytes returns the object as indented text with a final newline.
func (d *document) bytes() []byte {
	var flat, out bytes.Buffer
	flat.WriteByte('{')
	for i, m := range d.members {
		if i > 0 {
			flat.WriteByte(',')
		}
		key, _ := json.Marshal(m.key) // a string always marshals
		flat.Write(key)
		flat.WriteByte(':')
		flat.Write(m.value)
	}
	flat.WriteByte('}')
	if err := json.Indent(&out, flat.Bytes(), "", "  "); err != nil {
		panic("config: a value is not JSON: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

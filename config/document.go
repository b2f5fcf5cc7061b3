package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"osaurus-sandbox/internal/printable"
)

// document is a JSON object that keeps the order of its members and the exact
// text of their values, so that what it does not understand survives a rewrite.
type document struct {
	members []member
}

type member struct {
	key          string
	value        json.RawMessage
	keyAt, valAt int // offsets in the text that was parsed
}

// syntaxError is a fault in the text at an offset.
type syntaxError struct {
	at  int
	key string // the member it is in, if known
	err error
}

func (e *syntaxError) Error() string {
	if e.key != "" {
		return e.key + ": " + e.err.Error()
	}
	return e.err.Error()
}

// parseDocument reads exactly one JSON object in UTF-8 whose keys are all
// different. Errors are *syntaxError.
func parseDocument(text []byte) (*document, error) {
	if at := printable.InvalidUTF8(text); at >= 0 {
		return nil, &syntaxError{at: at, err: errors.New("not UTF-8 text")}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	// A token's own offset is where the decoder stands after the separators.
	next := func() int {
		at := int(dec.InputOffset())
		return at + len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n,:"))
	}
	start := next()
	if tok, err := dec.Token(); err != nil {
		return nil, malformed(text, start, "", err)
	} else if tok != json.Delim('{') {
		return nil, &syntaxError{at: start, err: errors.New("the file is not a JSON object {…}")}
	}
	d := &document{}
	for dec.More() {
		m := member{keyAt: next()}
		tok, err := dec.Token()
		if err != nil {
			return nil, malformed(text, m.keyAt, "", err)
		}
		m.key = tok.(string) // the decoder lets nothing else stand before a colon
		m.valAt = next()
		if err := dec.Decode(&m.value); err != nil {
			return nil, malformed(text, m.valAt, m.key, err)
		}
		if d.index(m.key) >= 0 {
			return nil, &syntaxError{at: m.keyAt, key: m.key, err: errors.New("the key is there twice")}
		}
		d.members = append(d.members, m)
	}
	end := next()
	if _, err := dec.Token(); err != nil {
		return nil, malformed(text, end, "", err)
	}
	if rest := next(); rest < len(text) {
		return nil, &syntaxError{at: rest, err: errors.New("there is more after the closing brace")}
	}
	return d, nil
}

// malformed says where the decoder stumbled. Its own offsets count from the
// value it was decoding, so the place is the start of what was being read.
func malformed(text []byte, at int, key string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &syntaxError{at: len(text), key: key, err: errors.New("the file ends in the middle")}
	}
	return &syntaxError{at: at, key: key, err: err}
}

// position names an offset as people count: "line:column", both from 1.
func position(text []byte, at int) string {
	line, column := printable.Place(text, at)
	return fmt.Sprintf("%d:%d", line, column)
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

// bytes is the object as indented text with a final newline.
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
		panic("config: a document holds a value that is not JSON: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

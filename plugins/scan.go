package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"osaurus-sandbox/internal/printable"
)

// document is a JSON text with the place of each value.
type document struct {
	text []byte
	dec  *json.Decoder
	at   map[string]int // offset of each value, by its path
}

// scan decodes a text that holds one JSON value as encoding/json does, with json.Number for numbers. It refuses
// duplicate keys, and values that are too many or nested too deep. Its error is a *Finding.
func scan(text []byte) (*document, any, error) {
	d := &document{text: text, dec: json.NewDecoder(bytes.NewReader(text)), at: map[string]int{}}
	if len(text) > MaxRecipe {
		return d, nil, d.fault(0, root, "size", "Let setup download large files.", "%d bytes are more than %d", len(text), MaxRecipe)
	}
	if at := printable.InvalidUTF8(text); at >= 0 {
		return d, nil, d.fault(at, root, "json", "Save the file as UTF-8; a recipe holds only text.", "not UTF-8 text")
	}
	d.dec.UseNumber()
	v, err := d.value(root, 0)
	if err != nil {
		return d, nil, err
	}
	if rest := d.next(); rest < len(text) {
		return d, nil, d.fault(rest, root, "json", "Remove it: a file holds one recipe.", "text after the closing brace")
	}
	return d, v, nil
}

// next is the offset of the next token: the decoder stops before separators.
func (d *document) next() int {
	at := int(d.dec.InputOffset())
	return at + len(d.text[at:]) - len(bytes.TrimLeft(d.text[at:], " \t\r\n,:"))
}

// token reads the next token and says where it begins.
func (d *document) token(path string) (json.Token, int, error) {
	at := d.next()
	token, err := d.dec.Token()
	if err == nil {
		return token, at, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, err = len(d.text), errors.New("the text ends in the middle")
	}
	return nil, at, d.fault(at, path, "json", "Correct the JSON there: an editor that knows JSON shows the place.", "%v", err)
}

func (d *document) value(path string, depth int) (any, error) {
	token, at, err := d.token(path)
	if err != nil {
		return nil, err
	}
	if len(d.at) == maxValues {
		return nil, d.fault(at, path, "size", "Put data into files, or let setup download it.", "more than %d values", maxValues)
	}
	d.at[path] = at
	delim, nested := token.(json.Delim)
	if !nested {
		return token, nil
	}
	if depth == MaxDepth {
		return nil, d.fault(at, path, "depth", "Make it flatter.", "deeper than %d levels", MaxDepth)
	}
	var v any
	if delim == '{' {
		v, err = d.object(path, depth)
	} else {
		v, err = d.list(path, depth)
	}
	if err == nil {
		_, _, err = d.token(path) // the closing brace or bracket
	}
	return v, err
}

func (d *document) list(path string, depth int) (any, error) {
	list := []any{}
	for d.dec.More() {
		v, err := d.value(item(path, len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *document) object(path string, depth int) (any, error) {
	object := map[string]any{}
	for d.dec.More() {
		token, at, err := d.token(path)
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder accepts nothing else before a colon
		if _, twice := object[key]; twice {
			return nil, d.fault(at, below(path, key), "duplicate-key", "Keep one of the two.", "the key is there twice")
		}
		if object[key], err = d.value(below(path, key), depth+1); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func (d *document) fault(at int, path string, rule Rule, fix, format string, args ...any) error {
	line, column := printable.Place(d.text, at)
	return &Finding{Severity: Fault, Rule: rule, Path: path, Line: line, Column: column, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// locate adds the place of a finding: that of its path, or of the nearest value around it.
func (d *document) locate(f Finding) Finding {
	path := f.Path
	at, known := d.at[path]
	for !known && path != "" {
		path = parent(path)
		at, known = d.at[path]
	}
	f.Line, f.Column = printable.Place(d.text, at)
	return f
}

package plugins

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/printable"
)

// Parse reads a recipe. Its error is that of Refusal: fault.InvalidArgs with the path, the place and
// a remedy. It ignores warnings; Lint reports them.
func Parse(text []byte) (Recipe, error) {
	r, findings := read(text)
	if err := Refusal(findings); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// Lint lists what is wrong with a recipe's text: faults first, then warnings, by their place, and
// at most maxFindings.
func Lint(text []byte) []Finding {
	_, findings := read(text)
	return findings[:min(len(findings), maxFindings)]
}

// reader reads the text of one recipe.
type reader struct {
	text     []byte
	at       map[string]int // offset of each value, by its path
	findings []Finding
}

// read decodes a text as far as it can and lists what is wrong with it.
func read(text []byte) (Recipe, []Finding) {
	d := &reader{text: text, at: map[string]int{}}
	var r plainRecipe
	if err := d.decode(&r); err != nil {
		f := d.explain(err)
		if f.Rule != "type" {
			return Recipe{}, []Finding{d.locate(f)}
		}
		d.findings = append(d.findings, f)
	}
	for _, f := range Validate(Recipe(r)) {
		if !slices.ContainsFunc(d.findings, func(wrong Finding) bool { return wrong.Severity == Fault && strings.HasPrefix(f.Path, wrong.Path) }) {
			d.findings = append(d.findings, f)
		}
	}
	for i, f := range d.findings {
		d.findings[i] = d.locate(f)
	}
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return Recipe(r), d.findings
}

// plainRecipe is a Recipe that encoding/json handles field by field.
type plainRecipe Recipe

// decode decodes the text. After an error of rule "type", the rest of the recipe is decoded.
func (d *reader) decode(r *plainRecipe) error {
	if len(d.text) > MaxRecipe {
		return refusal(root, "size", "Let setup download large files.", "%d bytes are more than %d", len(d.text), MaxRecipe)
	}
	if at := printable.InvalidUTF8(d.text); at >= 0 {
		f := refusal(root, "json", "Save the file as UTF-8; a recipe holds only text.", "not UTF-8 text")
		f.Line, f.Column = printable.Place(d.text, at)
		return f
	}
	var whole json.RawMessage
	if err := json.Unmarshal(d.text, &whole); err != nil {
		return err
	}
	if err := d.scan(json.NewDecoder(bytes.NewReader(d.text)), root, 0); err != nil {
		return err
	}
	wrong := unmarshal(d.text, r)
	var tree map[string]any
	if err := unmarshal(d.text, &tree); err != nil {
		return err // not an object
	}
	if r.Metadata == nil {
		r.Metadata = map[string]any{}
	}
	if err := d.keep(reflect.ValueOf(r).Elem(), tree, root, r.Metadata); err != nil {
		return err
	}
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	}
	for i := range r.Tools {
		if r.Tools[i].Output == "text" { // the default
			r.Tools[i].Output = Text
		}
	}
	r.ModifiedAt = r.ModifiedAt.UTC()
	return wrong
}

// unmarshal decodes JSON with json.Number for numbers of no known type.
func unmarshal(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(v)
}

// scan records where each value of a valid JSON text begins. It refuses duplicate keys, and values
// that are too many or nested too deep.
func (d *reader) scan(dec *json.Decoder, path string, depth int) error {
	switch {
	case len(d.at) == maxValues:
		return refusal(path, "size", "Put data into files, or let setup download it.", "more than %d values", maxValues)
	case depth == MaxDepth:
		return refusal(path, "depth", "Nest it less deeply.", "deeper than %d levels", MaxDepth)
	}
	end := dec.InputOffset() // of the token before; the decoder has not read the separators
	rest := d.text[end:]
	d.at[path] = int(end) + len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
	token, err := dec.Token()
	if _, nested := token.(json.Delim); err != nil || !nested {
		return err
	}
	keys := map[string]bool{}
	for i := 0; dec.More(); i++ {
		part := item(path, i)
		if token == json.Delim('{') {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name := key.(string) // the text is valid
			part = below(path, name)
			if keys[name] {
				return refusal(part, "duplicate-key", "Keep one of the two.", "the key is there twice")
			}
			keys[name] = true
		}
		if err := d.scan(dec, part, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the closing brace or bracket
	return err
}

// keep moves the unknown keys of a recipe to its metadata, where the desktop app keeps them, and those of its parts
// under their paths, with a warning. It removes the known ones from tree, which is the same value as decoded without types.
func (d *reader) keep(v reflect.Value, tree any, path string, metadata map[string]any) error {
	object, _ := tree.(map[string]any)
	list, _ := tree.([]any)
	var err error
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		return d.keep(v.Elem(), tree, path, metadata)
	case kind == reflect.Slice:
		for i := range min(v.Len(), len(list)) {
			err = cmp.Or(err, d.keep(v.Index(i), list[i], item(path, i), metadata))
		}
	case kind == reflect.Map:
		for key, value := range v.Seq2() {
			err = cmp.Or(err, d.keep(value, object[key.String()], below(path, key.String()), metadata))
		}
	case kind == reflect.Struct && object != nil:
		for _, f := range reflect.VisibleFields(v.Type()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			err = cmp.Or(err, d.keep(v.FieldByIndex(f.Index), object[name], below(path, name), metadata))
			delete(object, name)
		}
		for _, key := range sortedKeys(object) {
			at, name := below(path, key), key
			if path != root {
				name = at
				d.findings = append(d.findings, Finding{Severity: Warning, Rule: "unknown-key", Path: at,
					Text: "is kept in metadata, and means nothing here", Fix: "Check that it is spelled right: osaurus-sandbox plugin schema"})
			}
			if _, taken := metadata[name]; taken {
				err = cmp.Or(err, error(refusal(at, "duplicate-key", "Keep one of the two.", "unknown keys are kept in metadata, which already has this one")))
			}
			metadata[name] = object[key]
		}
	}
	return err
}

// explain describes an error of decode.
func (d *reader) explain(err error) Finding {
	if f, ok := errors.AsType[*Finding](err); ok {
		return *f
	}
	f := refusal(root, "json", "Correct the JSON there: an editor that knows JSON shows the place.", "%v", err)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		f.Line, f.Column = printable.Place(d.text, max(int(syntax.Offset)-1, 0))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		for path, at := range d.at { // the last value that begins before the error
			if at < int(wrong.Offset) && at >= d.at[f.Path] {
				f.Path = path
			}
		}
		return *typeFault(f.Path, wrong.Value, kinds[wrong.Type.Kind()])
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return *typeFault("$.modifiedAt", "another text", `a time such as "2026-05-31T12:00:00Z"`)
	}
	return *f
}

// kinds describes the types of a recipe's parts.
var kinds = map[reflect.Kind]string{
	reflect.String: "a text in quotes", reflect.Bool: "true or false", reflect.Slice: "a list […]", reflect.Map: "an object {…}", reflect.Struct: "an object {…}",
	reflect.Int: fmt.Sprintf("a whole number of seconds from 1 to %d", MaxTimeout/time.Second),
}

func typeFault(path, found, want string) *Finding {
	return refusal(path, "type", "Write "+want+" there.", "found %s, expected %s", found, want)
}

// locate adds the place of a finding: that of its path, or of the nearest value around it.
func (d *reader) locate(f Finding) Finding {
	if f.Line > 0 {
		return f
	}
	path := f.Path
	at, known := d.at[path]
	for !known && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		at, known = d.at[path]
	}
	f.Line, f.Column = printable.Place(d.text, at)
	return f
}

// sortedKeys returns a map's keys, sorted.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

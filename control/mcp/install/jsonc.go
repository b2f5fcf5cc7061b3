package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"osaurus-sandbox/internal/printable"
)

// jsonc edits JSON files, with comments and trailing commas where a client
// allows them.
type jsonc struct{}

// defaultIndent is for files that have no indentation yet.
const defaultIndent = "  "

const byteOrderMark = "\ufeff"

func (jsonc) read(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	root.Standardize()
	var whole any
	err = json.Unmarshal(root.Pack(), &whole)
	return whole, err
}

func (jsonc) snippet(at place, entry object) string {
	return renderJSON(object{at.all(entry)}, "\n", defaultIndent) + "\n"
}

func (f jsonc) set(text []byte, at place, entry object) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte(f.snippet(at, entry)), nil
	}
	return edit(text, func(e editor) (editor, error) {
		servers := e.root.Find("/" + at.key)
		if servers == nil {
			return e.add(e.root, at.key, at.all(entry).value), nil
		}
		if i := at.index(servers); i >= 0 {
			there, newline := items(servers.Value)[i], ""
			if !oneLine(there.value) {
				newline = e.newline + e.indent(there.start)
			}
			return e.replace(there.value.StartOffset, there.value.EndOffset, renderJSON(entry, newline, e.unit)), nil
		}
		return e.add(servers, at.name, entry), nil
	})
}

func (jsonc) unset(text []byte, at place) ([]byte, error) {
	return edit(text, func(e editor) (editor, error) {
		if servers := e.root.Find("/" + at.key); servers != nil {
			if i := at.index(servers); i >= 0 {
				return e.remove(servers, i), nil
			}
		}
		return e, errors.New("the entry is missing")
	})
}

// edit edits a file after its byte order mark.
func edit(text []byte, do func(editor) (editor, error)) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	mark := len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	e := editor{text: text[mark:], root: root, newline: "\n", unit: defaultIndent}
	if bytes.Contains(text, []byte("\r\n")) {
		e.newline = "\r\n"
	}
	if indent := anyIndent.FindSubmatch(e.text); indent != nil {
		e.unit = string(indent[1])
	}
	e, err = do(e)
	return slices.Concat(text[:mark], e.text), err
}

// anyIndent matches the first line that is indented.
var anyIndent = regexp.MustCompile(`\n([ \t]+)[^ \t\r\n]`)

// editor replaces parts of a file. Offsets of the parsed file hold for the parts before
// an edit, so edits go from the end to the beginning.
type editor struct {
	text          []byte
	root          *hujson.Value
	newline, unit string
}

func (e editor) replace(from, to int, with string) editor {
	e.text = splice(e.text, from, to, with)
	return e
}

// add appends an item to an object or a list. Comments before the closing bracket stay
// before the item, and a trailing comma stays one.
func (e editor) add(to *hujson.Value, name string, v any) editor {
	lead, newline, closing := " ", "", ""
	list, end := items(to.Value), to.EndOffset-1
	from := len(bytes.TrimRight(e.text[:end], " \t\r\n"))
	outer := e.indent(to.StartOffset)
	if flat := len(list) > 0 && oneLine(to); !flat {
		newline, closing = e.newline+outer+e.unit, e.newline+outer
		lead = newline
	}
	text := lead
	if _, ok := to.Value.(*hujson.Object); ok {
		text += literal(name) + ": "
	}
	text += renderJSON(v, newline, e.unit)
	if len(list) == 0 {
		return e.replace(from, end, text+closing)
	}
	last := list[len(list)-1].value
	if last.AfterExtra != nil { // there is a trailing comma
		return e.replace(from, end, text+","+closing)
	}
	return e.replace(from, end, text+closing).replace(last.EndOffset, last.EndOffset, ",")
}

// remove removes an item. Comments before it stay.
func (e editor) remove(of *hujson.Value, i int) editor {
	list := items(of.Value)
	from := len(bytes.TrimRight(e.text[:list[i].start], " \t\r\n"))
	to := list[i].value.EndOffset
	comma := i < len(list)-1 || list[i].value.AfterExtra != nil
	if comma {
		to += len(list[i].value.AfterExtra) + 1
	}
	if len(list) == 1 && len(bytes.TrimSpace(slices.Concat(e.text[of.StartOffset+1:from], e.text[to:of.EndOffset-1]))) == 0 {
		return e.replace(of.StartOffset+1, of.EndOffset-1, "")
	}
	e = e.replace(from, to, "")
	if !comma && i > 0 {
		before := list[i-1].value.EndOffset + len(list[i-1].value.AfterExtra)
		e = e.replace(before, before+1, "")
	}
	return e
}

// indent returns the indentation of the line with an offset.
func (e editor) indent(offset int) string {
	line := e.text[bytes.LastIndexByte(e.text[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func oneLine(v *hujson.Value) bool {
	return !bytes.Contains(hujson.Value{Value: v.Value}.Pack(), []byte("\n"))
}

// item is a member of an object or an element of a list.
type item struct {
	start int
	name  string // of a member
	value *hujson.Value
}

func items(of hujson.ValueTrimmed) (list []item) {
	switch v := of.(type) {
	case *hujson.Object:
		if v == nil {
			return nil
		}
		for i := range v.Members {
			m := &v.Members[i]
			list = append(list, item{m.Name.StartOffset, m.Name.Value.(hujson.Literal).String(), &m.Value})
		}
	case *hujson.Array:
		for i := range v.Elements {
			list = append(list, item{v.Elements[i].StartOffset, "", &v.Elements[i]})
		}
	}
	return list
}

// index returns the index of the entry among all servers, or -1.
func (p place) index(servers *hujson.Value) int {
	return slices.IndexFunc(items(servers.Value), func(i item) bool {
		if !p.list {
			return i.name == p.name
		}
		name := i.value.Find("/name")
		if name == nil {
			return false
		}
		l, ok := name.Value.(hujson.Literal)
		return ok && l.Kind() == '"' && l.String() == p.name
	})
}

// parseJSON parses a file whose keys are unique.
func parseJSON(text []byte) (*hujson.Value, error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if !utf8.Valid(text) {
		return nil, errors.New("the file is not UTF-8")
	}
	root, err := hujson.Parse(bytes.Clone(text)) // Standardize changes it
	if err != nil {
		return nil, err
	}
	for v := range root.All() {
		object, _ := v.Value.(*hujson.Object)
		for i, m := range items(object) {
			if slices.ContainsFunc(items(object)[:i], func(other item) bool { return other.name == m.name }) {
				return nil, fmt.Errorf("the key %q is there twice", m.name)
			}
		}
	}
	return &root, nil
}

// renderJSON writes objects with one member a line, or in one line if newline is
// empty. The newline includes the indentation of the first line.
func renderJSON(v any, newline, unit string) string {
	parts, open, end := []string{}, "[", "]"
	deeper := newline
	if newline != "" {
		deeper += unit
	}
	switch v := v.(type) {
	case object:
		open, end = "{", "}"
		for _, m := range v {
			parts = append(parts, literal(m.key)+": "+renderJSON(m.value, deeper, unit))
		}
	case []any:
		for _, each := range v {
			parts = append(parts, renderJSON(each, deeper, unit))
		}
	default:
		return literal(v)
	}
	switch {
	case len(parts) == 0:
		return open + end
	case newline == "":
		return open + strings.Join(parts, ", ") + end
	}
	return open + deeper + strings.Join(parts, ","+deeper) + newline + end
}

// literal returns a value in one line, in a form that JSON, TOML and YAML share.
func literal(v any) string {
	if list, ok := v.([]string); ok {
		parts := make([]string, len(list))
		for i, each := range list {
			parts[i] = literal(each)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, err := printable.JSON(v)
	if err != nil {
		panic(fmt.Sprintf("install: %v", err)) // a mistake in All
	}
	return string(text)
}

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	top := container{value: root, newline: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		top.newline = "\r\n"
	}
	top.unit = defaultIndent
	if members := top.items(); len(members) > 0 && lineIndent(*members[0].before) != "" {
		top.unit = lineIndent(*members[0].before)
	}
	servers := top.child(at.key)
	if servers == nil {
		top.add(at.key, at.all(entry).value)
		return pack(text, root), nil
	}
	inside := container{servers.value, top.newline, top.unit, lineIndent(*servers.before)}
	if there := inside.find(at); there != nil {
		there.value.Value = inside.render(entry, lineIndent(*there.before), oneLine(*there.value)).Value
		return pack(text, root), nil
	}
	inside.add(at.name, entry)
	return pack(text, root), nil
}

func (jsonc) unset(text []byte, at place) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	if servers := (container{value: root}).child(at.key); servers != nil {
		inside := container{value: servers.value}
		if there := inside.find(at); there != nil {
			inside.remove(there.index)
			return pack(text, root), nil
		}
	}
	return nil, errors.New("the entry is missing")
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
		names := map[string]bool{}
		for _, item := range (container{value: v}).items() {
			if item.name != "" && names[item.name] {
				return nil, fmt.Errorf("the key %q is there twice", item.name)
			}
			names[item.name] = true
		}
	}
	return &root, nil
}

func pack(before []byte, root *hujson.Value) []byte {
	if bytes.HasPrefix(before, []byte(byteOrderMark)) {
		return append([]byte(byteOrderMark), root.Pack()...)
	}
	return root.Pack()
}

// container is an object or an array, and how to write into it.
type container struct {
	value         *hujson.Value
	newline, unit string
	outer         string // the indentation of the line with the closing bracket
}

// item is a member of an object or an element of an array.
type item struct {
	index  int
	name   string // of a member
	before *hujson.Extra
	value  *hujson.Value
}

func (c container) items() (items []item) {
	switch v := c.value.Value.(type) {
	case *hujson.Object:
		for i := range v.Members {
			m := &v.Members[i]
			items = append(items, item{i, m.Name.Value.(hujson.Literal).String(), &m.Name.BeforeExtra, &m.Value})
		}
	case *hujson.Array:
		for i := range v.Elements {
			items = append(items, item{i, "", &v.Elements[i].BeforeExtra, &v.Elements[i]})
		}
	}
	return items
}

func (c container) child(name string) *item {
	items := c.items()
	i := slices.IndexFunc(items, func(i item) bool { return i.name == name })
	if i < 0 {
		return nil
	}
	return &items[i]
}

// find returns the entry in the container of all servers, or nil.
func (c container) find(at place) *item {
	if !at.list {
		return c.child(at.name)
	}
	for _, each := range c.items() {
		if name := (container{value: each.value}).child("name"); name != nil {
			if l, ok := name.value.Value.(hujson.Literal); ok && l.Kind() == '"' && l.String() == at.name {
				return &each
			}
		}
	}
	return nil
}

// end returns the text before the closing bracket.
func (c container) end() *hujson.Extra {
	switch v := c.value.Value.(type) {
	case *hujson.Object:
		return &v.AfterExtra
	case *hujson.Array:
		return &v.AfterExtra
	}
	return new(hujson.Extra)
}

// add appends an item. Comments before the closing bracket stay before it, and a
// trailing comma stays one.
func (c container) add(name string, v any) {
	items, end := c.items(), c.end()
	flat := len(items) > 0 && oneLine(*c.value)
	indent, lead, closing := c.outer+c.unit, " ", ""
	if !flat {
		if len(items) > 0 && lineIndent(*items[len(items)-1].before) != "" {
			indent = lineIndent(*items[len(items)-1].before)
		}
		lead, closing = c.newline+indent, c.newline+c.outer
	}
	before := hujson.Extra(strings.TrimRight(string(*end), " \t\r\n") + lead)
	*end = hujson.Extra(closing)
	value := c.render(v, indent, flat)
	if len(items) > 0 && items[len(items)-1].value.AfterExtra != nil {
		value.AfterExtra = hujson.Extra{}
	}
	switch to := c.value.Value.(type) {
	case *hujson.Object:
		value.BeforeExtra = hujson.Extra(" ")
		to.Members = append(to.Members, hujson.ObjectMember{Name: hujson.Value{BeforeExtra: before, Value: hujson.String(name)}, Value: value})
	case *hujson.Array:
		value.BeforeExtra = before
		to.Elements = append(to.Elements, value)
	}
}

// remove removes an item and keeps the comments before it.
func (c container) remove(i int) {
	items, end := c.items(), c.end()
	comments := strings.TrimRight(string(*items[i].before), " \t\r\n")
	trailing := items[i].value.AfterExtra
	if i < len(items)-1 {
		*items[i+1].before = hujson.Extra(comments + string(*items[i+1].before))
	} else {
		*end = hujson.Extra(comments + string(*end))
		if i > 0 {
			items[i-1].value.AfterExtra = trailing
		} else if strings.TrimSpace(string(*end)) == "" {
			*end = nil
		}
	}
	switch v := c.value.Value.(type) {
	case *hujson.Object:
		v.Members = slices.Delete(v.Members, i, i+1)
	case *hujson.Array:
		v.Elements = slices.Delete(v.Elements, i, i+1)
	}
}

// render returns a value for a line with an indentation, in one line if flat.
func (c container) render(v any, indent string, flat bool) hujson.Value {
	newline := c.newline + indent
	if flat {
		newline = ""
	}
	value, err := hujson.Parse([]byte(renderJSON(v, newline, c.unit)))
	if err != nil {
		panic("install: " + err.Error()) // renderJSON writes JSON
	}
	return value
}

// lineIndent returns the indentation of what follows, if it begins a line.
func lineIndent(before hujson.Extra) string {
	i := bytes.LastIndexByte(before, '\n')
	if i < 0 || len(bytes.TrimSpace(before[i:])) > 0 {
		return ""
	}
	return string(before[i+1:])
}

func oneLine(v hujson.Value) bool {
	return !bytes.Contains(hujson.Value{Value: v.Value}.Pack(), []byte("\n"))
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

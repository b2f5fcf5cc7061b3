package install

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/tailscale/hujson"
)

// jsonc edits JSON files, with comments and trailing commas where a client
// allows them.
type jsonc struct{}

// defaultIndent is for files that have no indentation yet.
const defaultIndent = "  "

func (jsonc) read(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	d, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	d.root.Standardize()
	var whole any
	err = json.Unmarshal(d.root.Pack(), &whole)
	return whole, err
}

func (jsonc) snippet(at place, entry object) string {
	return indented(object{at.servers(entry)}, "", defaultIndent) + "\n"
}

func (f jsonc) set(text []byte, at place, entry object) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte(f.snippet(at, entry)), nil
	}
	d, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	servers := d.root.Find("/" + at.key)
	if servers == nil {
		all := at.servers(entry)
		return d.add(&d.root, all.key, all.value), nil
	}
	list := items(servers)
	i := slices.IndexFunc(list, at.matches)
	if i < 0 {
		return d.add(servers, Server, entry), nil
	}
	value := list[i].value
	return splice(text, value.StartOffset, value.EndOffset, indented(entry, d.indent(list[i].start), d.unit)), nil
}

func (jsonc) unset(text []byte, at place) ([]byte, error) {
	d, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	servers := d.root.Find("/" + at.key)
	i := slices.IndexFunc(items(servers), at.matches)
	return d.remove(servers, i), nil
}

// document is a parsed file.
type document struct {
	text []byte
	root hujson.Value
	unit string // of indentation
}

// anyIndent matches the first line that is indented.
var anyIndent = regexp.MustCompile(`\n([ \t]+)[^ \t\r\n]`)

func parseJSON(text []byte) (*document, error) {
	root, err := hujson.Parse(bytes.Clone(text)) // Standardize changes it
	d := &document{text: text, root: root, unit: defaultIndent}
	if indent := anyIndent.FindSubmatch(text); indent != nil {
		d.unit = string(indent[1])
	}
	return d, err
}

// indent returns the indentation of the line with an offset.
func (d *document) indent(offset int) string {
	line := d.text[bytes.LastIndexByte(d.text[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func indented(v any, prefix, unit string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(literal(v)), prefix, unit); err != nil {
		panic("install: " + err.Error()) // literal returns JSON
	}
	return b.String()
}

// add puts an item at the beginning of an object or a list, where no comma is before it.
func (d *document) add(to *hujson.Value, name string, v any) []byte {
	from, indent := to.StartOffset+1, "\n"+d.indent(to.StartOffset)
	text := indented(v, indent[1:]+d.unit, d.unit)
	if _, ok := to.Value.(*hujson.Object); ok {
		text = literal(name) + ": " + text
	}
	text = indent + d.unit + text
	if len(items(to)) > 0 {
		return splice(d.text, from, from, text+",")
	}
	space := len(d.text[from:]) - len(bytes.TrimLeft(d.text[from:], whiteSpace))
	return splice(d.text, from, from+space, text+indent)
}

const whiteSpace = " \t\r\n"

// remove removes an item. Comments before it stay.
func (d *document) remove(of *hujson.Value, i int) []byte {
	list := items(of)
	from := len(bytes.TrimRight(d.text[:list[i].start], whiteSpace))
	to := list[i].value.EndOffset
	comma := i < len(list)-1 || list[i].value.AfterExtra != nil
	if comma {
		to += len(list[i].value.AfterExtra) + 1
	}
	switch {
	case len(list) == 1 && len(bytes.TrimSpace(slices.Concat(d.text[of.StartOffset+1:from], d.text[to:of.EndOffset-1]))) == 0:
		from, to = of.StartOffset+1, of.EndOffset-1
	case !comma && i > 0: // the comma before it goes, too
		before := list[i-1].value.EndOffset + len(list[i-1].value.AfterExtra)
		return splice(d.text, before, to, string(d.text[before+1:from]))
	}
	return splice(d.text, from, to, "")
}

// item is a member of an object or an element of a list.
type item struct {
	start int
	name  string // of a member
	value *hujson.Value
}

func items(of *hujson.Value) (list []item) {
	switch all := of.Value.(type) {
	case *hujson.Object:
		for i := range all.Members {
			m := &all.Members[i]
			list = append(list, item{m.Name.StartOffset, m.Name.Value.(hujson.Literal).String(), &m.Value})
		}
	case *hujson.Array:
		for i := range all.Elements {
			list = append(list, item{all.Elements[i].StartOffset, "", &all.Elements[i]})
		}
	}
	return list
}

// matches reports whether an item is the entry.
func (p place) matches(i item) bool {
	if !p.list {
		return i.name == Server
	}
	name := i.value.Find("/name")
	if name == nil {
		return false
	}
	l, ok := name.Value.(hujson.Literal)
	return ok && l.Kind() == '"' && l.String() == Server
}

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	return d.whole, err
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
	if pointer := at.pointer(d.whole); pointer != "" {
		old := d.root.Find(pointer)
		if old == nil {
			return nil, errTwice
		}
		return splice(text, old.StartOffset, old.EndOffset, indented(entry, d.indent(old.StartOffset), d.unit)), nil
	}
	if servers := d.root.Find("/" + at.key); servers != nil {
		return d.add(servers, Server, entry), nil
	}
	all := at.servers(entry)
	return d.add(&d.root, all.key, all.value), nil
}

// errTwice reports a duplicate key. Find returns the first member of that name, and decoders take the last.
var errTwice = errors.New("a key is there twice")

// unset removes the entry and a comma. Comments around it stay: a patch by hujson would take some of them for its own.
func (jsonc) unset(text []byte, at place) ([]byte, error) {
	d, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	old := d.root.Find(at.pointer(d.whole))
	if old == nil {
		return nil, errTwice
	}
	from, to := old.StartOffset, old.EndOffset
	if !at.list {
		from = max(0, bytes.LastIndex(text[:from], []byte(literal(Server))))
	}
	from = len(bytes.TrimRight(text[:from], whiteSpace))
	if comma := to + len(old.AfterExtra); text[comma] == ',' {
		to = comma + 1
	} else if from > 0 && text[from-1] == ',' {
		from--
	}
	return splice(text, from, to, ""), nil
}

const whiteSpace = " \t\r\n"

// pointer returns the JSON pointer of the entry in a decoded file, or "".
func (p place) pointer(whole any) string {
	root, _ := whole.(map[string]any)
	switch servers := root[p.key].(type) {
	case map[string]any:
		if _, there := servers[Server]; there {
			return "/" + p.key + "/" + Server
		}
	case []any:
		if i := slices.IndexFunc(servers, isOurs); i >= 0 {
			return fmt.Sprintf("/%s/%d", p.key, i)
		}
	}
	return ""
}

// document is a parsed file.
type document struct {
	text  []byte
	root  hujson.Value
	whole any    // decoded
	unit  string // of indentation
}

// anyIndent matches the first line that is indented.
var anyIndent = regexp.MustCompile(`\n([ \t]+)[^ \t\r\n]`)

func parseJSON(text []byte) (*document, error) {
	d := &document{text: text, unit: defaultIndent}
	if indent := anyIndent.FindSubmatch(text); indent != nil {
		d.unit = string(indent[1])
	}
	var err error
	if d.root, err = hujson.Parse(text); err != nil {
		return d, err
	}
	plain, err := hujson.Standardize(bytes.Clone(text))
	if err == nil {
		err = json.Unmarshal(plain, &d.whole)
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
	from, indent, count := to.StartOffset+1, "\n"+d.indent(to.StartOffset), 0
	text := indented(v, indent[1:]+d.unit, d.unit)
	switch all := to.Value.(type) {
	case *hujson.Object:
		text, count = literal(name)+": "+text, len(all.Members)
	case *hujson.Array:
		count = len(all.Elements)
	}
	text = indent + d.unit + text
	if count > 0 {
		return splice(d.text, from, from, text+",")
	}
	space := len(d.text[from:]) - len(bytes.TrimLeft(d.text[from:], whiteSpace))
	return splice(d.text, from, from+space, text+indent)
}

package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"osaurus-sandbox/internal/printable"
)

// jsonc are files of JSON, with comments where their client has them.
type jsonc struct{}

// usualUnit is by how much a file is indented that has no indentation yet.
const usualUnit = "  "

func (jsonc) read(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	n, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	return n.whole(), nil
}

func (jsonc) snippet(at place, entry object) string {
	return style{unit: usualUnit, newline: "\n"}.render(object{at.all(entry)}, "") + "\n"
}

// all is the key of all servers, with the entry alone.
func (p place) all(entry object) member {
	if p.list {
		return member{p.key, []any{entry}}
	}
	return member{p.key, object{{p.name, entry}}}
}

func (f jsonc) set(text []byte, at place, entry object) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte(f.snippet(at, entry)), nil
	}
	root, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	s, servers := styleOf(text, root), root.find(at.key)
	if servers == nil {
		return s.insert(text, root, at.all(entry)), nil
	}
	switch there := at.child(&servers.node); {
	case there != nil:
		return splice(text, there.from, there.to, s.renderIn(text, there.start, entry, oneLine(text, &there.node))), nil
	case at.list:
		return s.insert(text, &servers.node, member{value: entry}), nil
	default:
		return s.insert(text, &servers.node, member{at.name, entry}), nil
	}
}

func (jsonc) unset(text []byte, at place) ([]byte, error) {
	root, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	if servers := root.find(at.key); servers != nil {
		for i := range servers.children {
			if at.child(&servers.node) == &servers.children[i] {
				return cut(text, &servers.node, i), nil
			}
		}
	}
	return nil, errors.New("it is not there")
}

// child is the entry in a node of servers, or nil.
func (p place) child(n *node) *child {
	if !p.list {
		return n.find(p.name)
	}
	for i := range n.children {
		if name := n.children[i].find("name"); name != nil && name.value == p.name {
			return &n.children[i]
		}
	}
	return nil
}

// style is how a file is written.
type style struct{ unit, newline string }

func styleOf(text []byte, root *node) style {
	s := style{usualUnit, "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		s.newline = "\r\n"
	}
	if len(root.children) > 0 {
		if indent, first := indentOf(text, root.children[0].start); first && indent != "" {
			s.unit = indent
		}
	}
	return s
}

// indentOf is the indentation of the line that a place is in, and whether the place is the
// first thing in it.
func indentOf(text []byte, at int) (indent string, first bool) {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
	rest := bytes.TrimLeft(line, " \t")
	return string(line[:len(line)-len(rest)]), len(rest) == 0
}

func oneLine(text []byte, n *node) bool { return !bytes.Contains(text[n.from:n.to], []byte("\n")) }

// insert adds a member at the end of an object, or an item at that of a list.
func (s style) insert(text []byte, n *node, m member) []byte {
	closing := n.to - 1
	if len(n.children) == 0 {
		outer, _ := indentOf(text, n.from)
		inner := bytes.TrimRight(text[n.from+1:closing], " \t\r\n")
		return splice(text, n.from+1, closing, string(inner)+s.newline+outer+s.unit+s.member(m, outer+s.unit)+s.newline+outer)
	}
	last := n.children[len(n.children)-1]
	lead, comma, trail := " ", ",", ""
	if !oneLine(text, n) {
		outer, _ := indentOf(text, n.from)
		indent, first := indentOf(text, last.start)
		if !first {
			indent = outer + s.unit
		}
		lead = s.newline + indent
		m.value = rendered(s.render(m.value, indent))
	} else {
		m.value = rendered(style{}.render(m.value, ""))
	}
	if last.comma >= 0 {
		comma, trail = "", ","
	}
	end := len(bytes.TrimRight(text[:closing], " \t\r\n"))
	out := splice(text, end, end, lead+s.member(m, "")+trail)
	return splice(out, last.to, last.to, comma)
}

// cut takes a child away, and what only it needed: its line, a comma.
func cut(text []byte, n *node, i int) []byte {
	c := n.children[i]
	from, to := len(bytes.TrimRight(text[:c.start], " \t\r\n")), c.to
	if c.comma >= 0 {
		to = c.comma + 1
	}
	if i == len(n.children)-1 && c.comma < 0 && i > 0 {
		before := n.children[i-1].comma
		text = splice(text, before, before+1, "")
		from, to = from-1, to-1
		if from < before { // nothing is between that comma and the child
			from = before
		}
	}
	if len(n.children) == 1 && len(bytes.TrimSpace(text[n.from+1:from])) == 0 && len(bytes.TrimSpace(text[to:n.to-1])) == 0 {
		return splice(text, n.from+1, n.to-1, "")
	}
	return splice(text, from, to, "")
}

func splice(text []byte, from, to int, with string) []byte {
	return append(append(append([]byte{}, text[:from]...), with...), text[to:]...)
}

// rendered is a value that is text already.
type rendered string

func (s style) member(m member, indent string) string {
	if m.key == "" {
		return s.render(m.value, indent)
	}
	return literal(m.key) + ": " + s.render(m.value, indent)
}

// renderIn is a value as it stands in the line of a place.
func (s style) renderIn(text []byte, at int, v any, flat bool) string {
	if flat {
		return style{}.render(v, "")
	}
	indent, _ := indentOf(text, at)
	return s.render(v, indent)
}

// render is a value as this file would have it; without a newline, in one line.
func (s style) render(v any, indent string) string {
	switch v := v.(type) {
	case rendered:
		return string(v)
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = s.member(m, indent+s.unit)
		}
		return s.wrap("{", parts, "}", indent)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = s.render(item, indent+s.unit)
		}
		return s.wrap("[", parts, "]", indent)
	}
	return literal(v)
}

func (s style) wrap(open string, parts []string, closing, indent string) string {
	switch {
	case len(parts) == 0:
		return open + closing
	case s.newline == "":
		return open + strings.Join(parts, ", ") + closing
	}
	lead := s.newline + indent + s.unit
	return open + lead + strings.Join(parts, ","+lead) + s.newline + indent + closing
}

// literal is a value in one line, in a form that JSON, TOML and YAML have in
// common.
func literal(v any) string {
	if list, ok := v.([]string); ok {
		parts := make([]string, len(list))
		for i, item := range list {
			parts[i] = literal(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, err := printable.JSON(v)
	if err != nil {
		panic(fmt.Sprintf("clients: %v", err)) // a mistake in All
	}
	return string(text)
}

package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"osaurus-sandbox/internal/printable"
)

// node is a value of JSON with the place where it stands. value is nil, a bool, a string, a
// json.Number, a []*node or an *object.
type node struct {
	at    int
	value any
}

type object struct{ members []member }

type member struct {
	key  string
	at   int
	node *node
}

func (o *object) get(key string) *node {
	for _, m := range o.members {
		if m.key == key {
			return m.node
		}
	}
	return nil
}

// plain is the value as encoding/json has it, with json.Number for numbers.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case []*node:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item.plain()
		}
		return list
	case *object:
		return v.plain()
	}
	return n.value
}

func (o *object) plain() map[string]any {
	m := make(map[string]any, len(o.members))
	for _, member := range o.members {
		m[member.key] = member.node.plain()
	}
	return m
}

// stumble is a fault in the text itself.
type stumble struct {
	at   int
	path string
	rule Rule
	err  error
	fix  string
}

func (s *stumble) Error() string { return s.err.Error() }

const jsonFix = "Mend the JSON there: an editor that knows JSON shows the place."

// tree is a text as values with their places.
type tree struct {
	text []byte
	top  *node
	at   map[string]int // where each value begins, by its path
}

// grow reads a text that holds one value of JSON, in which no object has a key twice, nothing
// is deeper than MaxDepth, and there are no more than maxValues.
func grow(text []byte) (*tree, *stumble) {
	if len(text) > MaxRecipe {
		return nil, &stumble{path: root, rule: "size", err: fmt.Errorf("%d bytes are more than %d", len(text), MaxRecipe),
			fix: "Put what is big where setup can download it."}
	}
	if at := printable.InvalidUTF8(text); at >= 0 {
		return nil, &stumble{at: at, path: root, rule: "json", err: errors.New("not UTF-8 text"), fix: "Save the file as UTF-8; a recipe holds texts only."}
	}
	g := &grower{tree: tree{text: text, at: map[string]int{}}, dec: json.NewDecoder(bytes.NewReader(text))}
	g.dec.UseNumber()
	var err *stumble
	if g.top, err = g.value(root, 0); err != nil {
		return nil, err
	}
	if rest := g.next(); rest < len(text) {
		return nil, &stumble{at: rest, path: root, rule: "json", err: errors.New("there is more after the closing brace"), fix: "Remove it: a file holds one recipe."}
	}
	return &g.tree, nil
}

type grower struct {
	tree
	dec *json.Decoder
}

// next is where the next token begins: the decoder stands before what separates.
func (g *grower) next() int {
	at := int(g.dec.InputOffset())
	return at + len(g.text[at:]) - len(bytes.TrimLeft(g.text[at:], " \t\r\n,:"))
}

func (g *grower) value(path string, depth int) (*node, *stumble) {
	n := &node{at: g.next()}
	token, err := g.dec.Token()
	if err != nil {
		return nil, g.broken(n.at, path, err)
	}
	if len(g.at) == maxValues {
		return nil, &stumble{at: n.at, path: path, rule: "size", err: fmt.Errorf("more than %d values", maxValues), fix: "Put data into files, or where setup can download it."}
	}
	g.at[path] = n.at
	if delim, is := token.(json.Delim); is {
		if depth == MaxDepth {
			return nil, &stumble{at: n.at, path: path, rule: "depth", err: fmt.Errorf("deeper than %d levels", MaxDepth), fix: "Make it flatter."}
		}
		var stumbled *stumble
		if delim == '{' {
			n.value, stumbled = g.object(path, depth)
		} else {
			n.value, stumbled = g.list(path, depth)
		}
		return n, stumbled
	}
	n.value = token
	return n, nil
}

func (g *grower) list(path string, depth int) ([]*node, *stumble) {
	list := []*node{}
	for g.dec.More() {
		item, err := g.value(path+"["+strconv.Itoa(len(list))+"]", depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, g.close(path)
}

func (g *grower) object(path string, depth int) (*object, *stumble) {
	o, seen := &object{}, map[string]bool{}
	for g.dec.More() {
		m := member{at: g.next()}
		token, err := g.dec.Token()
		if err != nil {
			return nil, g.broken(m.at, path, err)
		}
		m.key = token.(string) // the decoder lets nothing else stand before a colon
		under := below(path, m.key)
		if seen[m.key] {
			return nil, &stumble{at: m.at, path: under, rule: "duplicate-key", err: errors.New("the key is there twice"), fix: "Keep one of the two."}
		}
		seen[m.key] = true
		var stumbled *stumble
		if m.node, stumbled = g.value(under, depth+1); stumbled != nil {
			return nil, stumbled
		}
		o.members = append(o.members, m)
	}
	return o, g.close(path)
}

func (g *grower) close(path string) *stumble {
	at := g.next()
	if _, err := g.dec.Token(); err != nil {
		return g.broken(at, path, err)
	}
	return nil
}

func (g *grower) broken(at int, path string, err error) *stumble {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, err = len(g.text), errors.New("the text ends in the middle")
	}
	return &stumble{at: at, path: path, rule: "json", err: err, fix: jsonFix}
}

// locate adds the place of a finding: that of its path, or of the nearest thing around it.
func (t *tree) locate(f Finding) Finding {
	path := f.Path
	at, known := t.at[path]
	for !known && path != "" {
		path = parent(path)
		at, known = t.at[path]
	}
	f.Line, f.Column = printable.Place(t.text, at)
	return f
}

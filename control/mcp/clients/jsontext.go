package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds how deep values may be in each other: no settings are as deep.
const maxDepth = 100

// node is a value in a text of JSON, and where it stands.
type node struct {
	from, to int
	children []child // of an object or a list
	value    any     // of anything else
}

// child is a member of an object, or an item of a list.
type child struct {
	node
	key   string
	start int // of the key, or of the item
	comma int // behind it, or -1
}

// find is a member of an object, or nil.
func (n *node) find(key string) *child {
	for i := range n.children {
		if n.children[i].key == key {
			return &n.children[i]
		}
	}
	return nil
}

// reader reads JSON as editors write it: with comments, and commas behind the last.
type reader struct {
	text []byte
	at   int
}

func readJSON(text []byte) (*node, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is no UTF-8")
	}
	r := &reader{text: text}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		r.at = len("\ufeff")
	}
	n, err := r.node(0)
	if err == nil {
		err = r.skip()
	}
	if err == nil && r.at < len(text) {
		err = errors.New("more than one value")
	}
	if err != nil {
		line := 1 + bytes.Count(text[:min(r.at, len(text))], []byte("\n"))
		return nil, fmt.Errorf("line %d: %w", line, err)
	}
	return n, nil
}

// skip goes over blanks and comments.
func (r *reader) skip() error {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0:
			r.at++
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			r.at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return errors.New("a comment without an end")
			}
			r.at += end + 4
		default:
			return nil
		}
	}
	return nil
}

// next is the next byte that is no blank and in no comment, or 0 at the end.
func (r *reader) next() (byte, error) {
	if err := r.skip(); err != nil || r.at == len(r.text) {
		return 0, err
	}
	return r.text[r.at], nil
}

func (r *reader) node(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("too many values in each other")
	}
	c, err := r.next()
	n := &node{from: r.at}
	switch {
	case err != nil:
		return nil, err
	case c == '{' || c == '[':
		err = r.children(n, c, depth)
	case c == 0:
		err = errors.New("a value is missing")
	default:
		err = r.scalar(&n.value)
	}
	n.to = r.at
	return n, err
}

// children reads what is in an object or a list.
func (r *reader) children(n *node, open byte, depth int) error {
	closing := open + 2 // in ASCII, of both
	r.at++
	n.children = []child{}
	for {
		c, err := r.next()
		switch {
		case err != nil:
			return err
		case c == closing:
			r.at++
			if open == '{' {
				n.value = map[string]any{}
			} else {
				n.value = []any{}
			}
			return nil
		case c == 0:
			return errors.New("it ends too early")
		case len(n.children) > 0 && n.children[len(n.children)-1].comma < 0:
			return errors.New("a comma is missing")
		}
		item := child{start: r.at, comma: -1}
		if open == '{' {
			if item.key, err = r.key(n); err != nil {
				return err
			}
		}
		inner, err := r.node(depth + 1)
		if err != nil {
			return err
		}
		item.node = *inner
		if c, err = r.next(); err != nil {
			return err
		}
		if c == ',' {
			item.comma = r.at
			r.at++
		}
		n.children = append(n.children, item)
	}
}

// key reads a key of an object that it does not have yet.
func (r *reader) key(of *node) (string, error) {
	var v any
	if err := r.scalar(&v); err != nil {
		return "", err
	}
	key, ok := v.(string)
	if !ok {
		return "", errors.New("a key is no text in quotes")
	}
	if of.find(key) != nil {
		return "", fmt.Errorf("the key %q is there twice", key)
	}
	if c, err := r.next(); err != nil || c != ':' {
		return "", errors.Join(err, fmt.Errorf("no colon behind %q", key))
	}
	r.at++
	return key, nil
}

// scalar reads a text, a number, or a word.
func (r *reader) scalar(v *any) error {
	end := r.at
	if r.text[end] == '"' {
		for end++; end < len(r.text) && r.text[end] != '"' && r.text[end] != '\n'; end++ {
			if r.text[end] == '\\' {
				end++
			}
		}
		end++
	} else {
		for end < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\"/"), r.text[end]) < 0 {
			end++
		}
	}
	if end > len(r.text) || json.Unmarshal(r.text[r.at:end], v) != nil {
		return fmt.Errorf("%.40q is no value", r.text[r.at:min(end, len(r.text))])
	}
	r.at = end
	return nil
}

// whole is what a node says.
func (n *node) whole() any {
	switch n.value.(type) {
	case map[string]any:
		m := map[string]any{}
		for _, c := range n.children {
			m[c.key] = c.whole()
		}
		return m
	case []any:
		list := []any{}
		for _, c := range n.children {
			list = append(list, c.whole())
		}
		return list
	}
	return n.value
}

package install

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlText edits YAML files in block style, whose servers are in a map at the
// top level.
type yamlText struct{}

func (yamlText) read(text []byte) (any, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return asJSON(v)
}

func (f yamlText) snippet(at place, entry object) string {
	return at.key + ":\n" + f.block(at, entry, defaultIndent)
}

// block returns the entry below the key of all servers.
func (yamlText) block(at place, entry object, indent string) string {
	var b strings.Builder
	b.WriteString(indent + Server + ":\n")
	for _, m := range entry {
		b.WriteString(indent + indent + m.key + ": " + literal(m.value) + "\n")
	}
	return b.String()
}

func (f yamlText) set(text []byte, at place, entry object) ([]byte, error) {
	all, ours, err := f.find(text, at)
	if err != nil {
		return nil, err
	}
	from, to, with := len(text), len(text), f.snippet(at, entry)
	switch {
	case all.node == nil: // at the end
	case len(all.node.Content) == 0:
		from, to = all.from, all.to
	default:
		from, to = all.to, all.to
		if ours.node != nil {
			from, to = ours.from, ours.to
		}
		with = f.block(at, entry, strings.Repeat(" ", all.node.Content[0].Column-1))
	}
	if from > 0 && text[from-1] != '\n' {
		with = "\n" + with
	}
	return splice(text, from, to, with), nil
}

func (f yamlText) unset(text []byte, at place) ([]byte, error) {
	all, ours, err := f.find(text, at)
	if err != nil || ours.node == nil {
		return text, err
	}
	if len(all.node.Content) == 2 { // a key with nothing below it would be no map
		ours = all
	}
	return splice(text, ours.from, ours.to, ""), nil
}

// section is a key of a map with its value. Its lines are text[from:to].
type section struct {
	node     *yaml.Node // of the value, nil if there is no such key
	from, to int
}

// find returns all servers, and the entry among them.
func (yamlText) find(text []byte, at place) (all, entry section, err error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Content) == 0 {
		return all, entry, err
	}
	all = findKey(text, section{file.Content[0], 0, len(text)}, at.key)
	if all.node != nil && all.node.Style&yaml.FlowStyle != 0 && len(all.node.Content) > 0 {
		return all, entry, errors.New("its servers are not in block style")
	}
	if all.node != nil {
		entry = findKey(text, all, Server)
	}
	return all, entry, nil
}

// findKey finds a key of a map. Blank lines and comments after its value belong to what
// follows.
func findKey(text []byte, in section, key string) (found section) {
	starts := []int{0, 0} // of lines, which the parser counts from 1
	for line := range bytes.Lines(text) {
		starts = append(starts, starts[len(starts)-1]+len(line))
	}
	for i := 0; i+1 < len(in.node.Content); i += 2 {
		if in.node.Content[i].Value != key {
			continue
		}
		found = section{in.node.Content[i+1], starts[in.node.Content[i].Line], in.to}
		if i+2 < len(in.node.Content) {
			found.to = starts[in.node.Content[i+2].Line]
		}
		end := found.from
		for line := range bytes.Lines(text[found.from:found.to]) {
			end += len(line)
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
				in.to = end
			}
		}
		found.to = in.to
	}
	return found
}

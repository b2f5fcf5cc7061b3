package install

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlText edits YAML files in block style by their lines.
type yamlText struct{}

func (yamlText) read(text []byte) (any, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return asJSON(v)
}

func (f yamlText) snippet(at place, entry object) string {
	return at.key + ":\n" + f.lines(entry, defaultIndent)
}

// lines returns the entry below the key of all servers.
func (yamlText) lines(entry object, indent string) string {
	var b strings.Builder
	b.WriteString(indent + Server + ":\n")
	for _, m := range entry {
		b.WriteString(indent + indent + m.key + ": " + literal(m.value) + "\n")
	}
	return b.String()
}

// set replaces the entry, or adds it in front of the others.
func (f yamlText) set(text []byte, at place, entry object) ([]byte, error) {
	if from, to := f.find(text); from >= 0 {
		return splice(text, from, to, f.lines(entry, indentOf(text[from:]))), nil
	}
	servers := regexp.MustCompile(`(?m)^` + at.key + `:[ \t]*(#.*)?\r?\n`).FindIndex(text)
	if servers == nil {
		lead := ""
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			lead = "\n"
		}
		return []byte(string(text) + lead + f.snippet(at, entry)), nil
	}
	indent := ""
	for line := range bytes.Lines(text[servers[1]:]) {
		if hasContent(line) {
			indent = indentOf(line)
			break
		}
	}
	return splice(text, servers[1], servers[1], f.lines(entry, cmp.Or(indent, defaultIndent))), nil
}

func (f yamlText) unset(text []byte, _ place) ([]byte, error) {
	if from, to := f.find(text); from >= 0 {
		return splice(text, from, to, ""), nil
	}
	return text, nil
}

var yamlEntry = regexp.MustCompile(`^ +["']?` + Server + `["']?[ \t]*:`)

// find returns the range of the entry, or -1.
func (yamlText) find(text []byte) (from, to int) {
	depth := 0
	return block(text, func(line []byte) bool {
		depth = len(indentOf(line))
		return yamlEntry.Match(line)
	}, func(line []byte) bool { return len(indentOf(line)) <= depth })
}

// indentOf returns the spaces at the beginning of a line.
func indentOf(line []byte) string { return string(line[:len(line)-len(bytes.TrimLeft(line, " "))]) }

// block returns the range of the lines from one that begins a block to the last with content before
// one that ends it, or -1.
func block(text []byte, begins, ends func(line []byte) bool) (from, to int) {
	from = -1
	pos := 0
	for line := range bytes.Lines(text) {
		next := pos + len(line)
		switch {
		case from < 0 && begins(line):
			from, to = pos, next
		case from >= 0 && hasContent(line):
			if ends(line) {
				return from, to
			}
			to = next
		}
		pos = next
	}
	return from, to
}

// hasContent reports whether a line is more than a comment.
func hasContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#'
}

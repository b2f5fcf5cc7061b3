package install

import (
	"bytes"
	"errors"
	"regexp"
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
	b.WriteString(indent + at.name + ":\n")
	for _, m := range entry {
		value := literal(m.value)
		if inner, ok := m.value.(object); ok {
			value = renderJSON(inner, "", "")
		}
		b.WriteString(indent + indent + m.key + ": " + value + "\n")
	}
	return b.String()
}

func (f yamlText) set(text []byte, at place, entry object) ([]byte, error) {
	s, err := f.section(text, at)
	if err != nil {
		return nil, err
	}
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	with := ""
	if s.end > 0 && !bytes.HasSuffix(text[:s.end], []byte("\n")) {
		with = "\n"
	}
	switch {
	case s.from >= 0:
		return splice(text, s.from, s.to, strings.ReplaceAll(f.block(at, entry, s.indent), "\n", newline)), nil
	case !s.there:
		with += f.snippet(at, entry)
	default:
		with += f.block(at, entry, s.indent)
	}
	return splice(text, s.end, s.end, strings.ReplaceAll(with, "\n", newline)), nil
}

func (f yamlText) unset(text []byte, at place) ([]byte, error) {
	s, err := f.section(text, at)
	if err != nil {
		return nil, err
	}
	if s.from < 0 {
		return nil, errors.New("it is not there")
	}
	if s.alone { // a key with nothing below it is no map
		return splice(text, s.key, s.to, at.key+": {}\n"), nil
	}
	return splice(text, s.from, s.to, ""), nil
}

// section is the part of a file with all servers.
type section struct {
	there    bool
	key      int    // where the line of its key begins
	end      int    // of the last line with content
	indent   string // of what is in it
	from, to int    // of the entry, or -1
	alone    bool   // the entry is all that is in it
}

func (yamlText) section(text []byte, at place) (section, error) {
	header := regexp.MustCompile(`^["']?` + regexp.QuoteMeta(at.key) + `["']?\s*:\s*(#.*)?$`)
	name := regexp.MustCompile(`^\s+["']?` + regexp.QuoteMeta(at.name) + `["']?\s*:`)
	s := section{from: -1, to: -1, indent: defaultIndent}
	pos, inside, inEntry, others := 0, false, false, 0
	for line := range bytes.Lines(text) {
		start, says := pos, strings.TrimRight(string(line), " \t\r\n")
		pos += len(line)
		trimmed := strings.TrimLeft(says, " ")
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		indent := says[:len(says)-len(trimmed)]
		if indent == "" {
			if inside = header.MatchString(says); inside {
				if s.there {
					return s, errors.New("its servers are there twice")
				}
				s.there, s.key, s.end = true, start, pos
			} else if !s.there {
				s.end = pos
			}
			inEntry = false
			continue
		}
		if !inside {
			if !s.there {
				s.end = pos
			}
			continue
		}
		if others == 0 && s.from < 0 {
			s.indent = indent
		}
		if len(indent) <= len(s.indent) {
			if inEntry = name.MatchString(says); inEntry {
				s.from = start
			} else {
				others++
			}
		}
		if inEntry {
			s.to = pos
		}
		s.end = pos
	}
	if !s.there {
		s.end = len(text)
	}
	s.alone = others == 0
	return s, nil
}

// Package gitignore matches paths with the lines of ignore files, and with globs.
package gitignore

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	maxLine    = 4096 // PATH_MAX of Linux
	maxChoices = 1000 // that a glob may have
)

// Rule is one line of an ignore file.
type Rule struct {
	pattern    []string // split at slashes
	negated    bool
	folderOnly bool
	whole      bool // matches the path below the file's folder, not only the name
	literal    bool
}

// Parse reads an ignore file like git, but classes like [[:alpha:]] match nothing.
func Parse(text string) []Rule {
	var rules []Rule
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = trimSpaces(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if line == "" || line[0] == '#' || len(line) > maxLine {
			continue
		}
		var r Rule
		line, r.negated = strings.CutPrefix(line, "!")
		line, r.folderOnly = strings.CutSuffix(line, "/")
		r.whole, r.literal = strings.Contains(line, "/"), !strings.ContainsAny(line, `*?[\`)
		if line = strings.TrimPrefix(line, "/"); line != "" {
			r.pattern = split(line)
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces cuts spaces off the end, but not one after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
		} else if line[i] == ' ' {
			continue
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// Decide asks the last rule that matches a path below the file's folder.
func Decide(rules []Rule, below string, folder bool) (ignored, decided bool) {
	names := strings.Split(below, "/")
	base := names[len(names)-1:]
	for i := len(rules) - 1; i >= 0; i-- {
		r := &rules[i]
		switch {
		case r.folderOnly && !folder, r.literal && r.pattern[len(r.pattern)-1] != base[0]:
		case r.whole && match(r.pattern, names), !r.whole && match(r.pattern, base):
			return !r.negated, true
		}
	}
	return false, false
}

// Glob is a pattern of paths.
type Glob struct{ choices [][]string }

// Compile compiles a glob: ? and * stay within a name, ** crosses folders, [ab] and {a,b} are choices, and \ quotes a
// character.
func Compile(glob string) (Glob, error) {
	choices, err := expand(glob)
	var g Glob
	for _, choice := range choices {
		pattern := split(choice)
		for _, part := range pattern {
			if _, bad := path.Match(part, ""); bad != nil {
				err = fmt.Errorf("%s: %w", part, bad)
			}
		}
		g.choices = append(g.choices, pattern)
	}
	return g, err
}

// Match reports whether the glob matches a whole path.
func (g Glob) Match(path string) bool {
	names := strings.Split(path, "/")
	return slices.ContainsFunc(g.choices, func(pattern []string) bool { return match(pattern, names) })
}

// expand writes the choices {a,b} of a glob out.
func expand(glob string) ([]string, error) {
	var options []string
	class, depth, open, from := false, 0, 0, 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '[' || c == ']':
			class = c == '['
		case class:
		case c == '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case c == ',' && depth == 1:
			options, from = append(options, glob[from:i]), i+1
		case c == '}' && depth > 0:
			if depth--; depth > 0 {
				continue
			}
			var all []string
			for _, option := range append(options, glob[from:i]) {
				more, err := expand(glob[:open] + option + glob[i+1:])
				if all = append(all, more...); err != nil {
					return nil, err
				}
				if len(all) > maxChoices {
					return nil, errors.New("too many choices in {}")
				}
			}
			return all, nil
		}
	}
	if depth > 0 {
		return nil, errors.New("a { has no }")
	}
	return []string{glob}, nil
}

func split(pattern string) []string {
	return strings.Split(strings.ReplaceAll(pattern, "[!", "[^"), "/")
}

// match matches a path with a pattern, both split at slashes. One that is malformed matches nothing.
func match(pattern, names []string) bool {
	at, retry, next := 0, -1, 0 // the place in the pattern; after the last **, and the first name that was not tried there
	for i := 0; i < len(names); {
		if at < len(pattern) {
			part := pattern[at]
			if len(part) > 1 && strings.Trim(part, "*") == "" {
				if at++; at == len(pattern) {
					return true
				}
				retry, next = at, i+1
				continue
			}
			if ok, err := path.Match(part, names[i]); ok && err == nil {
				at, i = at+1, i+1
				continue
			}
		}
		if retry < 0 {
			return false
		}
		at, i, next = retry, next, next+1
	}
	return at == len(pattern)
}

//go:build linux

package search

import (
	"bytes"
	"regexp"
	"regexp/syntax"
)

// matcher finds lines that match an expression.
type matcher struct {
	line    *regexp.Regexp
	literal []byte // a text that every matching line contains; nil if unknown
	exact   bool   // every line that contains literal matches
}

// compile compiles an expression.
func compile(pattern string, ignoreCase bool) (*matcher, error) {
	flags := ""
	if ignoreCase {
		flags = "(?i)"
	}
	tree, err := syntax.Parse(flags+pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	line, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, err
	}
	m := &matcher{line: line}
	tree = tree.Simplify()
	if text := required(tree); text != "" {
		m.literal = []byte(text)
		m.exact = tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0
	}
	return m, nil
}

// required returns the longest text that every match contains.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if text := required(sub); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	}
	return ""
}

// next finds the first matching line from an offset on and returns its bounds without the newline.
func (m *matcher) next(text []byte, from int) (start, end int, found bool) {
	for from < len(text) {
		start = from
		if m.literal != nil {
			i := bytes.Index(text[from:], m.literal)
			if i < 0 {
				return 0, 0, false
			}
			start = bytes.LastIndexByte(text[:from+i], '\n') + 1
			start = max(start, from)
		}
		end = len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i
		}
		if m.exact || m.line.Match(text[start:end]) {
			return start, end, true
		}
		from = end + 1
	}
	return 0, 0, false
}

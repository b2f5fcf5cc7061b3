//go:build linux

package search

import (
	"errors"
	"regexp"
	"strings"
)

// compileGlob compiles a glob to an expression that matches whole relative paths: ? and * stay
// within a name, ** crosses folders, [ab] and {a,b} are choices, and \ quotes a character.
func compileGlob(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A(?:`)
	depth := 0
	for i := 0; i < len(glob); {
		rest := glob[i:]
		switch c := glob[i]; {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString(`(?:[^/]+/)*`)
			i += 3
		case rest == "**" && (i == 0 || glob[i-1] == '/'):
			b.WriteString(`.+`)
			i += 2
		case c == '*':
			b.WriteString(`[^/]*`)
			for i < len(glob) && glob[i] == '*' {
				i++
			}
		case c == '?':
			b.WriteString(`[^/]`)
			i++
		case c == '[':
			class, n, err := charClass(rest)
			if err != nil {
				return nil, err
			}
			b.WriteString(class)
			i += n
		case c == '{':
			b.WriteString(`(?:`)
			depth++
			i++
		case c == '}' && depth > 0:
			b.WriteString(`)`)
			depth--
			i++
		case c == ',' && depth > 0:
			b.WriteString(`|`)
			i++
		case c == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	if depth > 0 {
		return nil, errors.New("a { has no }")
	}
	b.WriteString(`)\z`)
	return regexp.Compile(b.String())
}

// charClass compiles the character class at the start of a glob and returns its length.
func charClass(text string) (class string, n int, err error) {
	var b strings.Builder
	b.WriteString("[")
	i := 1
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		b.WriteString("^/")
		i++
	}
	for first := true; i < len(text); first = false {
		switch c := text[i]; {
		case c == ']' && !first:
			b.WriteString("]")
			return b.String(), i + 1, nil
		case c == '-':
			b.WriteString("-")
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteString(`\` + text[i:i+1])
		case strings.IndexByte(`[]^\&~`, c) >= 0:
			b.WriteString(`\` + text[i:i+1])
		default:
			b.WriteByte(c)
		}
		i++
	}
	return "", 0, errors.New("a [ has no ]")
}

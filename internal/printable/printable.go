// Package printable formats text from untrusted sources, values as JSON and shell words for display.
package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText bounds one text that is shown to a person.
const MaxText = 1 << 10

// cut marks text that was cut off.
const cut = "…"

// Text makes text from elsewhere safe to show: one line of valid UTF-8 without
// control characters and without characters that change the reading order.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError, unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return '·'
		}
		return r
	}, s)
}

// Clip returns Text of the first MaxText bytes.
func Clip(s string) string { return Text(s[:min(len(s), MaxText)]) }

// First returns the valid UTF-8 in the first most bytes.
func First(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// Cut returns valid UTF-8 of at most most bytes, with a mark if something is missing.
func Cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	end := most - len(cut)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}

// Chars returns at most most characters, with a mark if something is missing.
func Chars(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + cut
	}
	return s
}

// Line returns the beginning of a text on one line, at most most characters.
func Line(s string, most int) string {
	return Chars(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "), most)
}

// InvalidUTF8 returns the offset of the first byte that is not valid UTF-8, or -1.
func InvalidUTF8(text []byte) int {
	for at, r := range string(text) {
		if r == utf8.RuneError && !bytes.HasPrefix(text[at:], []byte(string(utf8.RuneError))) {
			return at
		}
	}
	return -1
}

// Place returns the line and column of an offset, both counted from 1.
func Place(text []byte, at int) (line, column int) {
	before := text[:min(at, len(text))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// LastLines returns the last lines of a text, including a final newline.
func LastLines(text string, lines int) string {
	begin := len(text)
	for ; lines > 0 && begin > 0; lines-- {
		begin = strings.LastIndexByte(text[:begin-1], '\n') + 1
	}
	return text[begin:]
}

// JSON returns a value as JSON, without escaping <, > and &.
func JSON(v any) ([]byte, error) {
	text, err := encode(v, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// Document returns indented JSON with a final newline.
func Document(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// Quote returns a text as one word for a POSIX shell, which expands nothing in it.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

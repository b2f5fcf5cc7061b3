// Package plain makes what people can read: of texts that others wrote, and of values in JSON.
package printable

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText clips one text, which a person will read.
const MaxText = 1 << 10

// cut shows that a text goes on.
const cut = "…"

// Text makes a text of somebody else fit for a person's eyes: one line of valid
// UTF-8, without what a terminal would obey or what changes the order in which it
// is read.
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

// Clip is Text of the first MaxText bytes of a text.
func Clip(s string) string { return Text(s[:min(len(s), MaxText)]) }

// First is what is valid UTF-8 in the first bytes of a text, at most so many.
func First(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// Cut makes valid UTF-8 of at most so many bytes, and shows that it did.
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

// Chars is a text of at most so many characters, and shows what it has cut off.
func Chars(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + cut
	}
	return s
}

// Line is as much of a text as is enough to recognise it, on one line.
func Line(s string, most int) string {
	return Chars(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "), most)
}

// InvalidUTF8 is where the first byte is that belongs to no character, or -1.
func InvalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// Place is an offset in a text as people count, both from 1.
func Place(text []byte, at int) (line, column int) {
	before := text[:min(at, len(text))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// LastLines are the last lines of a text, with the newline at their end if it has one.
func LastLines(text string, lines int) string {
	begin := len(text)
	for ; lines > 0 && begin > 0; lines-- {
		begin = strings.LastIndexByte(text[:begin-1], '\n') + 1
	}
	return text[begin:]
}

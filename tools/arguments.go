package tools

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// object reads arguments. No arguments are none; an object in a string is one.
func object(raw json.RawMessage) (map[string]any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
		return nil, nil
	}
	if m, ok := members(raw); ok {
		return m, nil
	}
	if m, ok := anyObject(raw); ok {
		return m, nil
	}
	return nil, wrongArgument("", "a JSON object with the arguments by their names", "the arguments are not a JSON object")
}

// anyObject reads an object, or one in a string, as encoding/json does.
func anyObject(raw []byte) (map[string]any, bool) {
	dec := decoder(raw)
	var v any
	err := dec.Decode(&v)
	if text, ok := v.(string); ok && err == nil {
		v, err = parse(text)
	}
	m, ok := v.(map[string]any)
	return m, ok && err == nil && !dec.More()
}

func parse(text string) (v any, err error) {
	err = decoder([]byte(text)).Decode(&v)
	return v, err
}

func decoder(raw []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a number is not to lose digits on its way
	return dec
}

// members reads an object whose members may be texts of megabytes, seven times as quickly as
// encoding/json, which looks at each of their bytes three times. It says no to all that is
// unusual, of which encoding/json then says what it is.
func members(raw []byte) (map[string]any, bool) {
	s := source(raw)
	if !s.take('{') {
		return nil, false
	}
	m := map[string]any{}
	for ended := s.take('}'); !ended; ended = s.take('}') {
		if len(m) > 0 && !s.take(',') {
			return nil, false
		}
		name, ok := s.text()
		if _, twice := m[name]; !ok || twice || !s.take(':') {
			return nil, false
		}
		if m[name], ok = s.value(); !ok {
			return nil, false
		}
	}
	return m, len(s) == 0
}

// source is what is left to read of JSON.
type source []byte

// take goes on after a character if that is the next.
func (s *source) take(c byte) bool {
	*s = bytes.TrimLeft(*s, " \t\r\n")
	if len(*s) == 0 || (*s)[0] != c {
		return false
	}
	*s = (*s)[1:]
	return true
}

func (s *source) value() (v any, ok bool) {
	if v, ok = s.text(); ok {
		return v, true
	}
	dec := decoder(*s)
	if dec.Decode(&v) != nil {
		return nil, false
	}
	*s = (*s)[dec.InputOffset():]
	return v, true
}

func (s *source) text() (string, bool) {
	*s = bytes.TrimLeft(*s, " \t\r\n")
	if len(*s) == 0 || (*s)[0] != '"' {
		return "", false
	}
	n := quotedLength(*s)
	text, ok := unquoted((*s)[:n])
	if ok {
		*s = (*s)[n:]
	}
	return text, ok
}

// quotedLength is how long the string is that JSON begins with.
func quotedLength(text []byte) int {
	for end := 1; ; {
		at := bytes.IndexByte(text[end:], '"')
		if at < 0 {
			return len(text)
		}
		end += at + 1
		before := text[1 : end-1]
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return end
		}
	}
}

// unquoted is what a string of JSON says, unless it is not valid.
func unquoted(quoted []byte) (string, bool) {
	if len(quoted) < 2 || quoted[len(quoted)-1] != '"' || !utf8.Valid(quoted) {
		return "", false
	}
	rest := quoted[1 : len(quoted)-1]
	var b strings.Builder
	b.Grow(len(rest))
	for {
		plain, _, more := bytes.Cut(rest, []byte{'\\'})
		for _, c := range plain {
			if c < ' ' {
				return "", false
			}
		}
		b.Write(plain)
		if !more {
			return b.String(), true
		}
		rest = rest[len(plain):]
		r, n := escaped(rest)
		if n == 0 {
			return "", false
		}
		b.WriteRune(r)
		rest = rest[n:]
	}
}

// escaped is the character that a text with a backslash begins with, and of how many bytes; of
// none if there is no such character.
func escaped(text []byte) (r rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, text[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := byNumber(text)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if low, ok := byNumber(text[6:]); ok {
		if r := utf16.DecodeRune(r, low); r != unicode.ReplacementChar {
			return r, 12
		}
	}
	return unicode.ReplacementChar, 6
}

// byNumber reads \u and four digits.
func byNumber(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

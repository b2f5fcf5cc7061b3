package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"

	"osaurus-sandbox/internal/printable"
)

// safe is text that goes to a person's terminal as it is.
type safe string

// writef is fmt.Fprintf for people. What an agent, a guest or a recipe says is among
// the arguments as likely as not: none of them makes another line, nor does anything
// to the terminal. Only what is safe stays as it is.
func writef(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, string(safef(format, args...)))
	return err
}

// safef is the text that writef writes.
func safef(format string, args ...any) safe {
	for i, arg := range args {
		switch v := arg.(type) {
		case safe:
		case error:
			args[i] = printable.Text(v.Error())
		case fmt.Stringer:
			args[i] = printable.Text(v.String())
		default:
			if text := reflect.ValueOf(arg); text.Kind() == reflect.String {
				args[i] = printable.Text(text.String())
			}
		}
	}
	return safe(fmt.Sprintf(format, args...))
}

// lines is a text of more lines than one, each as harmless as an argument of
// writef. Where they must not be taken for what this program says, each is to begin
// with something of its own.
func lines(text string) safe {
	list := strings.Split(text, "\n")
	for i, line := range list {
		parts := strings.Split(line, "\t")
		for j, part := range parts {
			parts[j] = printable.Text(part)
		}
		list[i] = strings.Join(parts, "\t")
	}
	return safe(strings.Join(list, "\n"))
}

// harmlessJSON says the same in JSON without a character that a terminal obeys, or
// that changes the order in which it is read: encoders leave some of those as they
// are. Outside of strings there are none.
func harmlessJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// framed breaks a text into lines that begin with a mark and are at most so many
// columns wide, so that a terminal breaks none of them: what it says can look like
// nothing but what stands behind the mark.
func framed(text, mark string, columns int) safe {
	room := max(columns-len(mark), 1)
	var b strings.Builder
	for line := range strings.SplitSeq(string(lines(text)), "\n") {
		b.WriteString(mark)
		used := 0
		for _, r := range strings.ReplaceAll(line, "\t", " ") {
			width := 1
			if r > unicode.MaxASCII { // some are wide; those that are not lose nothing but room
				width = 2
			}
			if used += width; used > room {
				b.WriteString("\n" + mark)
				used = width
			}
			b.WriteRune(r)
		}
		b.WriteByte('\n')
	}
	return safe(b.String())
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/machine"
)

// reply prints a command's answer, as JSON or with show for people; a nil show prints nothing. It
// returns err.
func reply[A any](c *call, answer A, err error, show func(io.Writer, A) error) error {
	switch {
	case err != nil:
		return err
	case c.json:
		return printJSON(c.out, answer)
	case show == nil:
		return nil
	}
	return show(c.out, answer)
}

// replyEach is reply for a stream of answers. In JSON, each is one line.
func replyEach[M proto.Message](c *call, answers iter.Seq2[M, error], show func(io.Writer, M) error) error {
	if c.json {
		show = printJSONLine
	}
	for answer, err := range answers {
		if err == nil {
			err = show(c.out, answer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replyTable is reply with a table for people.
func replyTable[M proto.Message, I any](c *call, answer M, err error, header string, items []I, cells func(I) []any) error {
	return reply(c, answer, err, func(w io.Writer, _ M) error { return printTable(w, header, items, cells) })
}

// replyRows is replyTable for a stream of items. In JSON, each is one line.
func replyRows[M any, I proto.Message](c *call, answers iter.Seq2[M, error], item func(M) I, header string, cells func(I) []any) error {
	list, err := collect(answers, item)
	if !c.json {
		return errors.Join(printTable(c.out, header, list, cells), err)
	}
	for _, i := range list {
		if err := printJSONLine(c.out, i); err != nil {
			return err
		}
	}
	return err
}

// collect returns the items of the answers until an error.
func collect[M, I any](answers iter.Seq2[M, error], item func(M) I) (list []I, err error) {
	for answer, err := range answers {
		if err != nil {
			return list, err
		}
		list = append(list, item(answer))
	}
	return list, nil
}

// printJSON prints a value or a message as indented JSON.
func printJSON(w io.Writer, v any) error { return encodeJSON(w, v, printable.Document, "") }

// printJSONLine prints a value or a message as JSON on one line.
func printJSONLine[V any](w io.Writer, v V) error { return encodeJSON(w, v, printable.JSON, "\n") }

// encodeJSON prints v as JSON. Messages have all fields, also those that are zero, false or empty, so that
// programs find them. Unset messages in them, such as times, are left out.
func encodeJSON(w io.Writer, v any, encode func(any) ([]byte, error), end string) error {
	if m, ok := v.(proto.Message); ok {
		text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
		if err != nil {
			return err
		}
		v = json.RawMessage(text)
	}
	text, err := encode(v)
	if err == nil {
		_, err = io.WriteString(w, harmlessJSON(text)+end)
	}
	return err
}

// table aligns cells in columns. Flush writes it.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table {
	const width, gap = 8, 2 // of columns
	return table{tabwriter.NewWriter(w, 0, width, gap, ' ', 0)}
}

// row adds a row. Its cells are formatted like arguments of writef.
func (t table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			writef(t, "\t")
		}
		writef(t, "%v", cell)
	}
	writef(t, "\n")
}

// field adds a row with a name and a value, unless the value is empty.
func (t table) field(name string, text any) {
	if text := safef("%s", text); text != "" {
		t.row(name, text)
	}
}

// printTable prints a row per item below a header, whose words are separated by tabs.
func printTable[I any](w io.Writer, header string, items []I, cells func(I) []any) error {
	t := newTable(w)
	if header != "" {
		t.row(safe(header))
	}
	for _, item := range items {
		t.row(cells(item)...)
	}
	return t.Flush()
}

// when formats a time in the local zone, or returns "" if it is not set.
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.DateTime)
}

// paint colours words on a terminal, and does nothing elsewhere.
type paint bool

// paintFor returns the paint for w. It honours https://no-color.org and dumb terminals.
func paintFor(w io.Writer) paint {
	terminal := os.Getenv("TERM")
	return paint(terminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && terminal != "" && terminal != "dumb")
}

// All colour codes have the same length, so that columns stay aligned.
func (p paint) good(text string) safe { return p.in("32", text) }
func (p paint) bad(text string) safe  { return p.in("31", text) }
func (p paint) busy(text string) safe { return p.in("33", text) }

func (p paint) in(colour, text string) safe { return p.around(colour, safef("%s", text)) }

func (p paint) around(colour string, text safe) safe {
	if !p {
		return text
	}
	return "\x1b[" + safe(colour) + "m" + text + "\x1b[0m"
}

// state colours the name of a sandbox state.
func (p paint) state(name string) safe {
	switch machine.State(name) {
	case machine.Running:
		return p.good(name)
	case machine.Failed, machine.Unresponsive, machine.SetupRequired:
		return p.bad(name)
	}
	return p.busy(name)
}

// safe is text that is printed to a terminal unchanged.
type safe string

// writef is fmt.Fprintf for people's terminals. Arguments may come from an agent, a guest or a
// recipe, so it escapes line breaks and control characters in them, except in arguments of type
// safe.
func writef(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, string(safef(format, args...)))
	return err
}

// safef returns the text that writef would write.
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

// lines escapes a text but keeps its line breaks. If the lines could be mistaken for this
// program's own output, the caller must add a prefix to each.
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

// harmlessJSON escapes characters in JSON that control a terminal or change the reading direction.
// Some encoders leave them as they are. They occur only inside strings.
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

// framed wraps a text to a number of columns and starts each line with a mark. The terminal then
// wraps no line itself, so the text cannot imitate output without the mark.
func framed(text, mark string, columns int) safe {
	room := max(columns-len(mark), 1)
	var b strings.Builder
	for line := range strings.SplitSeq(string(lines(text)), "\n") {
		b.WriteString(mark)
		used := 0
		for _, r := range strings.ReplaceAll(line, "\t", " ") {
			width := 1
			if r > unicode.MaxASCII { // counts as two columns, as some are wide
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

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

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/machine"
)

// withJSON has a command print JSON where somebody says --json: see reply.
func withJSON(cmd *cobra.Command) *cobra.Command { return jsonFlag(cmd, "print JSON") }

// jsonFlag is withJSON for a command in which the flag means something else too.
func jsonFlag(cmd *cobra.Command, usage string) *cobra.Command {
	cmd.Flags().Bool("json", false, usage)
	return cmd
}

// alwaysJSON is withJSON for a command that prints nothing else: whoever says it
// everywhere is not wrong here.
func alwaysJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("json", true, "print JSON, as it always does")
	return cmd
}

// wantsJSON reports whether a command is to print JSON.
func wantsJSON(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("json")
	return yes
}

// reply prints what came of a command: as JSON, or as show has it for people, to whom it
// prints nothing where that is nil. It returns the error with which the command ended before.
func reply[A any](cmd *cobra.Command, answer A, err error, show func(io.Writer, A) error) error {
	switch {
	case err != nil:
		return err
	case wantsJSON(cmd):
		if m, ok := any(answer).(proto.Message); ok {
			return printProto(cmd.OutOrStdout(), m)
		}
		return printJSON(cmd.OutOrStdout(), answer)
	case show == nil:
		return nil
	}
	return show(cmd.OutOrStdout(), answer)
}

// replyEach is reply for answers that come one after the other: each is a line of JSON.
func replyEach[M proto.Message](cmd *cobra.Command, answers iter.Seq2[M, error], show func(io.Writer, M) error) error {
	if wantsJSON(cmd) {
		show = printLine
	}
	for answer, err := range answers {
		if err == nil {
			err = show(cmd.OutOrStdout(), answer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replyTable is reply with a table for people.
func replyTable[M proto.Message, I any](cmd *cobra.Command, answer M, err error, header string, items []I, cells func(I) []any) error {
	return reply(cmd, answer, err, func(w io.Writer, _ M) error { return printTable(w, header, items, cells) })
}

// replyRows is replyTable for items that arrive one by one: each is a line of JSON.
func replyRows[M any, I proto.Message](cmd *cobra.Command, answers iter.Seq2[M, error], item func(M) I, header string, cells func(I) []any) error {
	list, err := collect(answers, item)
	if !wantsJSON(cmd) {
		return errors.Join(printTable(cmd.OutOrStdout(), header, list, cells), err)
	}
	for _, i := range list {
		if err := printLine(cmd.OutOrStdout(), i); err != nil {
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

// printJSON prints JSON for people and programs.
func printJSON(w io.Writer, v any) error {
	text, err := printable.Document(v)
	if err == nil {
		_, err = io.WriteString(w, harmlessJSON(text))
	}
	return err
}

// printJSONLine prints JSON on one line.
func printJSONLine(w io.Writer, v any) error {
	text, err := printable.JSON(v)
	if err == nil {
		_, err = io.WriteString(w, harmlessJSON(text)+"\n")
	}
	return err
}

// inJSON is a message as JSON. What is zero, false or empty is there too: a program that
// looks for it need not know what it would be. Messages that are not set, such as times, are not.
func inJSON(m proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
}

// printProto prints a message as JSON for people and programs.
func printProto(w io.Writer, m proto.Message) error {
	text, err := inJSON(m)
	if err != nil {
		return err
	}
	return printJSON(w, text) // its spaces are arbitrary
}

// printLine prints a message as one line of JSON.
func printLine[M proto.Message](w io.Writer, m M) error {
	text, err := inJSON(m)
	if err != nil {
		return err
	}
	return printJSONLine(w, text)
}

// table is rows whose cells stand in columns. Flush writes them.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table {
	const width, gap = 8, 2 // of columns
	return table{tabwriter.NewWriter(w, 0, width, gap, ' ', 0)}
}

// row adds a row, as writef writes it.
func (t table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			writef(t, "\t")
		}
		writef(t, "%v", cell)
	}
	writef(t, "\n")
}

// field adds a row of a name and what it is, unless that is empty.
func (t table) field(name string, text any) {
	if text := safef("%s", text); text != "" {
		t.row(name, text)
	}
}

// printTable prints what there is of each item, below a header, if there is one, whose words
// are separated by tabs.
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

// paint colours words where a person reads them on a terminal, and leaves them
// as they are elsewhere.
type paint bool

// paintFor is what w can show: https://no-color.org and dumb terminals are honoured.
func paintFor(w io.Writer) paint {
	terminal := os.Getenv("TERM")
	return paint(terminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && terminal != "" && terminal != "dumb")
}

// All colours are of the same length, so that columns stay in line.
func (p paint) good(text string) safe { return p.in("32", text) }
func (p paint) bad(text string) safe  { return p.in("31", text) }
func (p paint) busy(text string) safe { return p.in("33", text) }

func (p paint) in(colour, text string) safe {
	if !p {
		return safef("%s", text)
	}
	return "\x1b[" + safe(colour) + "m" + safef("%s", text) + "\x1b[0m"
}

// state colours the name of a state of the sandbox.
func (p paint) state(name string) safe {
	switch machine.State(name) {
	case machine.Running:
		return p.good(name)
	case machine.Failed, machine.Unresponsive, machine.SetupRequired:
		return p.bad(name)
	}
	return p.busy(name)
}

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

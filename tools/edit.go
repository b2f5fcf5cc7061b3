package tools

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/diff"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// maxShownLines is how many line numbers or similar lines a failure shows.
	maxShownLines = 10
	// nearLines is how many of the most similar lines a failure shows.
	nearLines = 3
	// maxCompared is how many lines of the missing text are compared with the file. A text that
	// matches so far was copied from the file.
	maxCompared = 200
	// maxOccurrences bounds the search for further occurrences of a text that should be unique.
	// Each may cost time proportional to the text.
	maxOccurrences = 100
)

type editIn struct {
	Path string `json:"path" jsonschema:"the file; relative to your home folder" limit:"minlen=1"`
	Old  string `json:"old_string" jsonschema:"text that occurs exactly once in the file, with its spaces and line ends" limit:"minlen=1"`
	New  string `json:"new_string" jsonschema:"its replacement; empty deletes it"`
}

type editOut struct {
	Path      string `json:"path"`
	Summary   string `json:"summary"`
	Diff      string `json:"diff"`
	Cut       bool   `json:"diff_truncated,omitempty"`
	Before    string `json:"before_content_sha256"`
	After     string `json:"content_sha256"`
	FirstLine int    `json:"line" jsonschema:"the line of the change"`
}

// newEdit makes sandbox_edit_file.
func newEdit(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_edit_file", Title: "Edit a file", Gate: Exec, Lean: true, Budget: fileTime + bootTime,
		Hints: Hints{Destructive: true},
		Description: `Replace a text in a file by another. The old text must be in the file exactly once: take lines around it if it is not. ` +
			`Line ends and permissions stay as they are.`,
	}, func(ctx context.Context, c *Call, in editIn) (editOut, error) {
		p, err := c.path(in.Path)
		if err != nil {
			return editOut{}, err
		}
		before, digest, err := c.readAll(ctx, p)
		if err != nil {
			return editOut{}, c.missing(ctx, p, err)
		}
		if binary(before) {
			return editOut{}, &Failure{Kind: fault.Rejected, Field: "path", Expected: "a text file", Message: p.String() + " is not a text file. Change it with a program in sandbox_exec"}
		}
		after, at, err := replaceOnce(ctx, before, in.Old, in.New)
		if err != nil {
			return editOut{}, err
		}
		w, err := c.writeAll(ctx, p, after, engine.FileWrite{IfSHA256: digest})
		if err != nil {
			return editOut{}, err
		}
		diff, cut := Diff(p.String(), string(before), string(after))
		return editOut{
			Path: p.String(), Diff: diff, Cut: cut, Before: digestText(digest), After: digestText(w.SHA256), FirstLine: at,
			Summary: fmt.Sprintf("replaced %d line(s) with %d line(s)", countLines(in.Old), countLines(in.New)),
		}, nil
	})
}

// replaceOnce replaces the only occurrence of old. In a file with CRLF line ends, it converts old
// and new if they use LF.
func replaceOnce(ctx context.Context, file []byte, old, new string) (out []byte, line int, err error) {
	ends, crlf := bytes.Count(file, []byte("\n")), bytes.Count(file, []byte("\r\n"))
	if crlf > 0 && !strings.Contains(old, "\r") && (crlf == ends || !bytes.Contains(file, []byte(old))) {
		old, new = strings.ReplaceAll(old, "\n", "\r\n"), strings.ReplaceAll(strings.ReplaceAll(new, "\r\n", "\n"), "\n", "\r\n")
	}
	if old == new {
		return nil, 0, wrongArgument("new_string", "another text than old_string", "old_string and new_string are the same")
	}
	at := bytes.Index(file, []byte(old))
	if at < 0 {
		return nil, 0, &Failure{
			Kind: fault.Execution, Final: true, Field: "old_string", Expected: "a text that is in the file exactly once",
			Message: "old_string was not found in the file" + nearest(string(file), old),
		}
	}
	lines, err := occurrences(ctx, file, old, at)
	if err != nil {
		return nil, 0, err
	}
	if len(lines) > 1 {
		shown, times := fmt.Sprint(lines[:min(len(lines), maxShownLines)]), fmt.Sprint(len(lines))
		if len(lines) == maxOccurrences {
			times = "at least " + times
		}
		return nil, 0, &Failure{
			Kind: fault.Execution, Final: true, Field: "old_string", Expected: "a text that is in the file exactly once",
			Message: fmt.Sprintf("old_string is in the file %s times, in the lines %s. Take more of the text around the one that is meant", times, strings.Trim(shown, "[]")),
			More:    map[string]any{"match_count": len(lines), "lines": lines[:min(len(lines), maxShownLines)]},
		}
	}
	return slices.Concat(file[:at], []byte(new), file[at+len(old):]), 1 + bytes.Count(file[:at], []byte("\n")), nil
}

// occurrences returns the lines on which a text begins, including overlapping matches. It stops
// after a limit or when the context ends.
func occurrences(ctx context.Context, file []byte, text string, from int) (lines []int, err error) {
	line, counted := 1, 0
	for at := from; len(lines) < maxOccurrences; {
		if err := context.Cause(ctx); err != nil {
			return nil, fault.Wrap("edit file", "", err)
		}
		line, counted = line+bytes.Count(file[counted:at], []byte("\n")), at
		lines = append(lines, line)
		next := bytes.Index(file[at+1:], []byte(text))
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return lines, nil
}

// nearest describes the place where a missing text first differs from the file, or else the lines
// most like its first line.
func nearest(file, text string) string {
	if at := firstDifference(file, text); at != "" {
		return at
	}
	first := ""
	for line := range strings.Lines(text) {
		if first = strings.TrimSpace(line); first != "" {
			break
		}
	}
	if first == "" {
		return ""
	}
	type near struct {
		number, score int
		text          string
	}
	var best []near
	number := 0
	for line := range strings.Lines(file) {
		number++
		trimmed := strings.TrimSpace(line)
		score := likeness(first, trimmed)
		if 2*score < len(first) || score == 0 {
			continue
		}
		best = append(best, near{number, score, strings.TrimRight(line, "\r\n")})
		slices.SortStableFunc(best, func(a, b near) int { return b.score - a.score })
		best = best[:min(len(best), nearLines)]
	}
	if len(best) == 0 {
		return ". Read the file again: it has no line like it"
	}
	var b strings.Builder
	b.WriteString(". The nearest lines are")
	for _, n := range best {
		fmt.Fprintf(&b, "\n%d: %s", n.number, printable.Chars(n.text, lineBytes))
	}
	return b.String()
}

// firstDifference shows the first line that differs, if text and file have an equal line before
// it. It ignores spaces.
func firstDifference(file, text string) string {
	have, want := strings.Split(file, "\n"), strings.Split(text, "\n")
	want = want[:min(len(want), maxCompared)]
	first := strings.TrimSpace(want[0])
	if first == "" {
		return ""
	}
	longest, at := -1, 0
	for i := range have {
		if strings.TrimSpace(have[i]) != first {
			continue
		}
		n := 0
		for n < len(want) && i+n < len(have) && have[i+n] == want[n] {
			n++
		}
		if n > longest {
			longest, at = n, i
		}
	}
	switch {
	case longest < 0, longest == len(want):
		return ""
	case at+longest == len(have):
		return fmt.Sprintf(". It begins as line %d does, and ends after the file does", at+1)
	}
	return fmt.Sprintf(". It begins as line %d does, but then has %s where line %d is %s", at+1, quoted(want[longest]), at+longest+1, quoted(have[at+longest]))
}

// likeness counts the characters that two lines share at their beginning and end.
func likeness(a, b string) int {
	n := min(len(a), len(b))
	head := 0
	for head < n && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head + tail
}

// maxDiff bounds a diff in an answer, in characters.
const maxDiff = 8_000

// Diff returns a unified diff of two versions of a file.
func Diff(path, before, after string) (text string, cut bool) {
	return clip(diff.Unified(path, before, after), maxDiff, 0)
}

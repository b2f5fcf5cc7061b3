// Package diff compares and merges texts by lines, as `diff -u` and `diff3 -m` do.
package diff

import (
	"fmt"
	"slices"
	"strings"
)

// around is the number of context lines.
const around = 3

// Hunk is a part of the difference of two texts: changes that are near each other.
type Hunk struct {
	before, after []string
	changes       []change
}

// Hunks returns the difference of two texts.
func Hunks(before, after string) []Hunk {
	a, b := lines(before), lines(after)
	var hunks []Hunk
	for _, c := range changes(a, b) {
		if n := len(hunks) - 1; n >= 0 && c.a0-hunks[n].changes[len(hunks[n].changes)-1].a1 <= 2*around {
			hunks[n].changes = append(hunks[n].changes, c)
		} else {
			hunks = append(hunks, Hunk{a, b, []change{c}})
		}
	}
	return hunks
}

// Size returns the numbers of lines that the hunk adds and removes.
func (h Hunk) Size() (added, removed int) {
	for _, c := range h.changes {
		added, removed = added+c.b1-c.b0, removed+c.a1-c.a0
	}
	return added, removed
}

// Text formats the hunk as a part of a unified diff.
func (h Hunk) Text() string {
	first, last := h.changes[0], h.changes[len(h.changes)-1]
	lead, tail := min(around, first.a0), min(around, len(h.before)-last.a1)
	from, to := first.a0-lead, first.b0-lead
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(from, last.a1+tail), span(to, last.b1+tail))
	for _, c := range h.changes {
		write(&out, " ", h.before[from:c.a0])
		write(&out, "-", h.before[c.a0:c.a1])
		write(&out, "+", h.after[c.b0:c.b1])
		from = c.a1
	}
	write(&out, " ", h.before[from:from+tail])
	return out.String()
}

// Unified returns the difference of two versions of the named text, or "" if they
// are equal.
func Unified(name, before, after string) string {
	hunks := Hunks(before, after)
	if len(hunks) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	for _, h := range hunks {
		out.WriteString(h.Text())
	}
	return out.String()
}

// Select returns the text before with those hunks applied that are chosen by number, from 0.
func Select(before, after string, chosen func(hunk int) bool) string {
	var out strings.Builder
	a, at := lines(before), 0
	for i, h := range Hunks(before, after) {
		for _, c := range h.changes {
			write(&out, "", a[at:c.a0])
			if at = c.a0; chosen(i) {
				write(&out, "", h.after[c.b0:c.b1])
				at = c.a1
			}
		}
	}
	write(&out, "", a[at:])
	return out.String()
}

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// write adds lines with a sign before each, or plain lines.
func write(out *strings.Builder, sign string, lines []string) {
	for _, line := range lines {
		out.WriteString(sign + line)
		if sign != "" && !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span formats the position of a hunk: "12,3", counted from 1.
func span(from, to int) string {
	n := to - from
	if n > 0 {
		from++
	}
	return fmt.Sprintf("%d,%d", from, n)
}

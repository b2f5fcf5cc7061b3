package tools

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxDiff bounds a diff in an answer, in characters.
	maxDiff = 8_000
	// diffContext is how many lines are shown around a change, as everywhere.
	diffContext = 3
)

// Diff is what changed in a file, as one part with lines around it: from the
// first line that differs to the last.
func Diff(path, before, after string) (diff string, cut bool) {
	if before == after {
		return "", false
	}
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, to := max(0, head-diffContext), max(0, tail-diffContext)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", path, path, span(from, len(a)-to), span(from, len(b)-to))
	mark := func(sign string, lines []string) {
		for _, line := range lines {
			out.WriteString(sign + line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	mark(" ", a[from:head])
	mark("-", a[head:len(a)-tail])
	mark("+", b[head:len(b)-tail])
	mark(" ", a[len(a)-tail:len(a)-to])
	return clip(out.String(), maxDiff, 0)
}

// span is a range of lines as diffs have it.
func span(from, to int) string {
	if to == from {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

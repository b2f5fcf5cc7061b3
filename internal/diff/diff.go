// Package diff formats the difference of two texts as `diff -u` does.
package diff

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// around is the number of context lines.
	around = 3
	// maxCompared bounds the work. Beyond it, everything is shown as changed.
	maxCompared = 4_000_000
)

// edit is a line that is kept (' '), removed ('-') or added ('+').
type edit struct {
	sign byte
	line string
}

// Unified returns the difference of two versions of the named text, or "" if they
// are equal.
func Unified(name, before, after string) string {
	if before == after {
		return ""
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
	lead, rest := min(head, around), min(tail, around)
	edits := slices.Concat(all(' ', a[head-lead:head]), compare(a[head:len(a)-tail], b[head:len(b)-tail]), all(' ', a[len(a)-tail:len(a)-tail+rest]))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	at := [2]int{head - lead, head - lead} // lines of before and after up to the part
	for i := 0; i < len(edits); {
		if edits[i].sign == ' ' {
			at[0], at[1], i = at[0]+1, at[1]+1, i+1
			continue
		}
		begin := max(0, i-around)
		end := i
		for quiet := 0; end < len(edits) && quiet <= 2*around; end++ {
			if quiet++; edits[end].sign != ' ' {
				quiet = 0
			}
		}
		for end > i && edits[end-1].sign == ' ' {
			end--
		}
		part := edits[begin:min(len(edits), end+around)]
		back := i - begin
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(at[0]-back, part, '-'), span(at[1]-back, part, '+'))
		for _, e := range part {
			out.WriteString(string(e.sign) + e.line)
			if !strings.HasSuffix(e.line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		for _, e := range edits[i:end] {
			if e.sign != '+' {
				at[0]++
			}
			if e.sign != '-' {
				at[1]++
			}
		}
		i = end
	}
	return out.String()
}

// span formats the position of a hunk: "12,3", counted from 1.
func span(before int, part []edit, sign byte) string {
	n := 0
	for _, e := range part {
		if e.sign == ' ' || e.sign == sign {
			n++
		}
	}
	if n > 0 {
		before++
	}
	return fmt.Sprintf("%d,%d", before, n)
}

// all returns edits with the same sign.
func all(sign byte, lines []string) []edit {
	edits := make([]edit, len(lines))
	for i, line := range lines {
		edits[i] = edit{sign, line}
	}
	return edits
}

// compare returns the edits that turn a into b, by longest common subsequence.
func compare(a, b []string) []edit {
	if len(a)*len(b) > maxCompared {
		return slices.Concat(all('-', a), all('+', b))
	}
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			if a[i] == b[j] {
				length[at] = length[at+width+1] + 1
			} else {
				length[at] = max(length[at+width], length[at+1])
			}
		}
	}
	var edits []edit
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			edits, i, j = append(edits, edit{' ', a[i]}), i+1, j+1
		case j == len(b) || i < len(a) && length[(i+1)*width+j] >= length[i*width+j+1]:
			edits, i = append(edits, edit{'-', a[i]}), i+1
		default:
			edits, j = append(edits, edit{'+', b[j]}), j+1
		}
	}
	return edits
}

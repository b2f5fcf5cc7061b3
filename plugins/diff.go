package plugins

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// around is how many lines are shown around a change, as everywhere.
	around = 3
	// maxCompared bounds the work of comparing what differs: beyond, all of it is shown as changed.
	maxCompared = 4_000_000
)

// Diff is what has changed from one recipe to another, as `diff -u` would have it: the recipe without its files, and
// then each file. It is empty if nothing has.
func Diff(before, after Recipe) (string, error) {
	a, err := before.bare()
	if err != nil {
		return "", err
	}
	b, err := after.bare()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	unified(&out, "recipe", a, b)
	paths := slices.Concat(sortedKeys(before.Files), sortedKeys(after.Files))
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		unified(&out, "files/"+string(p), before.Files[p], after.Files[p])
	}
	return out.String(), nil
}

// bare is the recipe's text without what is shown elsewhere, or says nothing.
func (r Recipe) bare() (string, error) {
	r.Files, r.ModifiedAt = nil, time.Time{}
	text, err := r.Encode()
	return string(text), err
}

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	sign byte
	line string
}

// unified writes what changed in a text, with a few lines around each change.
func unified(out *strings.Builder, name, before, after string) {
	if before == after {
		return
	}
	edits := compare(slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after)))
	fmt.Fprintf(out, "--- %s\n+++ %s\n", name, name)
	var at [2]int // lines of before and after up to the part
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
		lead := i - begin
		from, to := at[0]-lead, at[1]-lead
		fmt.Fprintf(out, "@@ -%s +%s @@\n", span(from, part, '-'), span(to, part, '+'))
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
}

// span is where a part stands: "12,3", from 1.
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

// compare finds the longest run of lines that both have, in order, and so what goes and what comes.
func compare(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head, a, b = append(head, edit{' ', a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail, a, b = append(tail, edit{' ', a[len(a)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	if len(a)*len(b) > maxCompared {
		for _, line := range a {
			head = append(head, edit{'-', line})
		}
		for _, line := range b {
			head = append(head, edit{'+', line})
		}
		return append(head, tail...)
	}
	return slices.Concat(head, common(a, b), tail)
}

// common compares by the lengths of what the rests have in common.
func common(a, b []string) []edit {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var edits []edit
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			edits, i, j = append(edits, edit{' ', a[i]}), i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			edits, i = append(edits, edit{'-', a[i]}), i+1
		default:
			edits, j = append(edits, edit{'+', b[j]}), j+1
		}
	}
	return edits
}

//go:build linux

package search

import "bytes"

// text searches the lines of a file part by part.
type text struct {
	run     *run
	path    string
	line    int // lines before the part
	matches []Match
	count   int // matches without context lines

	// For context: the last lines before the part, and how many to add after a match.
	before [][]byte
	after  int
}

// enough reports whether the file alone exceeds the limit.
func (t *text) enough() bool { return t.count > t.run.query.Limit && t.after == 0 }

// search searches a part that consists of whole lines.
func (t *text) search(part []byte, last bool) {
	counted := 0 // bytes whose lines are counted in t.line
	for from := 0; !t.enough(); {
		start, end, ok := t.run.lines.next(part, from)
		if t.run.query.Context > 0 {
			stop := len(part)
			if ok {
				stop = start
			}
			t.around(part[counted:stop])
			counted = stop
		} else if ok {
			t.line += bytes.Count(part[counted:start], []byte("\n"))
			counted = start
		}
		if !ok {
			break
		}
		t.lead()
		t.add(part[start:end], t.line+1, false)
		t.count++
		t.after = t.run.query.Context
		from = min(end+1, len(part))
		t.line++
		counted = from
	}
	if t.run.query.Context == 0 && !last { // the line count is not needed
		t.line += bytes.Count(part[counted:], []byte("\n"))
	}
}

// around records lines without a match as context.
func (t *text) around(lines []byte) {
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		t.line++
		if t.after > 0 {
			t.add(line, t.line, true)
			t.after--
			continue
		}
		if len(t.before) == t.run.query.Context {
			t.before = append(t.before[:0], t.before[1:]...)
		}
		t.before = append(t.before, bytes.Clone(t.clip(line)))
	}
}

// lead adds the context before a match.
func (t *text) lead() {
	for i, line := range t.before {
		t.add(line, t.line-len(t.before)+i+1, true)
	}
	t.before = t.before[:0]
}

func (t *text) add(line []byte, number int, context bool) {
	short := t.clip(line)
	t.matches = append(t.matches, Match{Path: t.path, Line: number, Text: bytes.Clone(short), Clipped: len(short) < len(line), Context: context})
}

func (t *text) clip(line []byte) []byte { return line[:min(len(line), t.run.query.LineLimit)] }

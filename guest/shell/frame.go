//go:build linux

package shell

import (
	"bytes"
	"strconv"
)

// frame is what a shell says about a call. Whoever is in the room can write
// into the FIFO; who does lies to the agent's own caller about the agent's own
// command, and cannot know the nonce of a call that has not begun.
type frame struct {
	kind   frameKind
	nonce  string
	status int
}

type frameKind byte

const (
	ready  frameKind = 'r' // the shell can take calls
	begun  frameKind = 'b' // it runs the call with the nonce
	over   frameKind = 'e' // the call has ended with the status
	stale  frameKind = 's' // over, and the prompt says what was true before
	fresh  frameKind = 'p' // there is a new prompt
	broken frameKind = 'x' // it cannot run calls any more
)

// maxFrame is longer than any frame: what does not end before is none.
const maxFrame = 64

// frames takes what is read from the FIFO apart.
type frames struct {
	line []byte
	junk bool // the line is too long
}

// next returns the frame that ends first in b, and the rest of b. Without one it
// keeps the beginning of the next, and returns nothing.
func (f *frames) next(b []byte) (_ frame, rest []byte, ok bool) {
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		if f.junk = f.junk || len(f.line)+len(part) > maxFrame; !f.junk {
			f.line = append(f.line, part...)
		}
		if !whole {
			return frame{}, nil, false
		}
		got, good := parseFrame(string(f.line))
		good = good && !f.junk
		f.line, f.junk = f.line[:0], false
		if good {
			return got, rest, true
		}
		b = rest
	}
	return frame{}, nil, false
}

func parseFrame(line string) (frame, bool) {
	words := bytes.Split([]byte(line), []byte{' '})
	f := frame{}
	if len(words[0]) != 1 {
		return f, false
	}
	f.kind = frameKind(words[0][0])
	want := map[frameKind]int{ready: 1, broken: 1, fresh: 1, begun: 2, over: 3, stale: 3}[f.kind]
	if len(words) != want {
		return f, false
	}
	if want > 1 {
		f.nonce = string(words[1])
	}
	if want > 2 {
		n, err := strconv.ParseUint(string(words[2]), 10, 8)
		if err != nil {
			return f, false
		}
		f.status = int(n)
	}
	return f, true
}

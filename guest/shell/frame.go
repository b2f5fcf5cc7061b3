//go:build linux

package shell

import (
	"bytes"
	"regexp"
	"strconv"
)

// frame is a shell's report about a call. Any program in the room can write into the FIFO, but it
// deceives only the agent's own caller about the agent's own command, and it does not know the
// nonce of a call that has not begun.
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
	stale  frameKind = 's' // as over, and the prompt is outdated
	fresh  frameKind = 'p' // there is a new prompt
	broken frameKind = 'x' // it cannot run calls any more
)

// maxFrame is longer than any frame. Longer lines are cut.
const maxFrame = 64

var frameText = regexp.MustCompile(`^([rpx]|[bes] (\w+))(?: (\d+))?$`)

// frames splits what is read from the FIFO into frames.
type frames struct{ line []byte }

// next returns the first frame that ends in b, and the rest of b. Without one it keeps b as the
// beginning of the next frame.
func (f *frames) next(b []byte) (_ frame, rest []byte, ok bool) {
	part, rest, ok := bytes.Cut(b, []byte{'\n'})
	f.line = append(f.line, part[:min(len(part), maxFrame-len(f.line))]...)
	if !ok {
		return frame{}, nil, false
	}
	fields := frameText.FindStringSubmatch(string(f.line))
	f.line = f.line[:0]
	if fields == nil {
		return frame{}, rest, true // handled like an unknown kind
	}
	n, _ := strconv.ParseUint(fields[3], 10, 8) // 0 if there is none
	return frame{frameKind(fields[1][0]), fields[2], int(n)}, rest, true
}

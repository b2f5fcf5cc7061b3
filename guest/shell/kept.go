//go:build linux

package shell

import (
	"slices"
	"unicode/utf8"

	"osaurus-sandbox/guest/guestpb"
)

// kept stores the beginning and the end of a stream, counted in characters. An invalid byte of
// UTF-8 counts as one.
type kept struct {
	headChars, tailChars int // the most of each

	buf     []byte
	omitted int // characters that were removed after the first headChars
}

func (k *kept) write(b []byte) {
	k.buf = append(k.buf, b...)
	// Keep up to twice the needed bytes to move them seldom.
	if most := (k.headChars + k.tailChars + 1) * utf8.UTFMax; len(k.buf) > 2*most {
		head := skip(k.buf, k.headChars)
		at := head
		for at < len(k.buf)-(k.tailChars+1)*utf8.UTFMax {
			at += skip(k.buf[at:], 1)
			k.omitted++
		}
		k.buf = slices.Delete(k.buf, head, at)
	}
}

// skip returns how many bytes the first characters of b take.
func skip(b []byte, chars int) (at int) {
	for ; chars > 0 && at < len(b); chars-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return at
}

// output returns what is stored so far.
func (k *kept) output() *guestpb.ShellOutput {
	head := skip(k.buf, k.headChars)
	omitted, tail := k.omitted, k.buf[head:]
	if more := utf8.RuneCount(tail) - k.tailChars; more > 0 {
		omitted += more
		tail = tail[skip(tail, more):]
	}
	if omitted == 0 {
		return &guestpb.ShellOutput{Head: k.buf}
	}
	return &guestpb.ShellOutput{Head: k.buf[:head], Omitted: uint64(omitted), Tail: tail}
}

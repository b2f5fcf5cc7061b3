//go:build linux

package shell

import (
	"bytes"
	"unicode/utf8"

	"osaurus-sandbox/guest/guestpb"
)

// kept stores the beginning and the end of a stream, counted in characters. An invalid byte of
// UTF-8 counts as one.
type kept struct {
	headChars, tailChars int // the most of each

	head, tail []byte
	heads      int    // characters in head
	after      uint64 // characters after head
	part       []byte // the beginning of a character
}

func (k *kept) write(b []byte) {
	if len(k.part) > 0 {
		b = append(k.part, b...)
		k.part = nil
	}
	whole := len(b) - unfinished(b)
	k.part = bytes.Clone(b[whole:])
	k.add(b[:whole])
}

// unfinished returns how many bytes at the end of b are an incomplete character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (k *kept) add(b []byte) {
	for k.heads < k.headChars && len(b) > 0 {
		_, size := utf8.DecodeRune(b)
		k.head = append(k.head, b[:size]...)
		b = b[size:]
		k.heads++
	}
	k.after += uint64(utf8.RuneCount(b))
	most := k.tailChars * utf8.UTFMax
	if len(b) > most {
		b = b[len(b)-most:]
	}
	k.tail = append(k.tail, b...)
	// Keep up to twice the needed bytes to move them seldom.
	if len(k.tail) > 2*most {
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-most:]...)
	}
}

// empty reports whether nothing was written.
func (k *kept) empty() bool { return len(k.head) == 0 && len(k.part) == 0 }

// output returns what is stored so far.
func (k *kept) output() *guestpb.ShellOutput {
	k.add(k.part)
	k.part = nil
	at, chars := len(k.tail), uint64(0)
	for at > 0 && chars < min(uint64(k.tailChars), k.after) {
		_, size := utf8.DecodeLastRune(k.tail[:at])
		at -= size
		chars++
	}
	if chars == k.after {
		return &guestpb.ShellOutput{Head: append(k.head, k.tail[at:]...)}
	}
	return &guestpb.ShellOutput{Head: k.head, Omitted: k.after - chars, Tail: k.tail[at:]}
}

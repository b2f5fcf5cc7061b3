package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip is a text of at most so many characters: its first 40 % and its last
// 60 %, where errors stand, and between them how many bytes were left out, with
// those that the guest had left out there before. Bytes that are no text are
// replaced.
func clip(text string, limit int, lost uint64) (clipped string, cut bool) {
	whole := text
	text = strings.ToValidUTF8(text, "\uFFFD")
	n := utf8.RuneCountInString(text)
	if n <= limit {
		if lost == 0 {
			return text, false
		}
		at := len(whole) * 2 / 5 // where the guest has cut, which counts in bytes
		for at > 0 && !utf8.RuneStart(whole[at]) {
			at--
		}
		return leftOut(whole[:at], whole[at:], lost), true
	}
	head := limit * 2 / 5
	tail := n - (limit - head)
	var from, to int
	i := 0
	for at := range text {
		switch i {
		case head:
			from = at
		case tail:
			to = at
		}
		i++
	}
	return leftOut(text[:from], text[to:], uint64(to-from)+lost), true
}

// leftOut is what is left of a text, with a mark where so many bytes of it were.
func leftOut(head, tail string, bytes uint64) string {
	return strings.ToValidUTF8(fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, bytes, tail), "\uFFFD")
}

// bytesFor is how many bytes hold so many characters, whichever they are.
func bytesFor(characters int) uint64 { return uint64(characters) * utf8.UTFMax }

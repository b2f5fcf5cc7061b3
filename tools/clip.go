package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip is a text of at most so many characters: its first 40 % and its last
// 60 %, where errors stand, and between them how much was left out, with what
// the guest had left out there before. Bytes that are no text are replaced.
func clip(text string, limit int, lost uint64) (clipped string, cut bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	n := utf8.RuneCountInString(text)
	if n <= limit {
		return text, false
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
	return fmt.Sprintf("%s\n[… %d characters left out …]\n%s", text[:from], uint64(tail-head)+lost, text[to:]), true
}

// bytesFor is how many bytes hold so many characters, whichever they are.
func bytesFor(characters int) uint64 { return uint64(characters) * utf8.UTFMax }

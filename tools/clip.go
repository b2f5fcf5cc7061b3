package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip shortens a text to limit characters. It keeps the first 40 % and the last 60 %, where
// errors usually are, and notes between them how many bytes are missing; lost of these were
// already cut by the guest. Invalid UTF-8 is replaced.
func clip(text string, limit int, lost uint64) (clipped string, cut bool) {
	runes := []rune(text)
	if len(runes) <= limit {
		if lost == 0 {
			return string(runes), false
		}
		at := len(text) * 2 / 5 // the guest cuts here, counting bytes
		for at > 0 && !utf8.RuneStart(text[at]) {
			at--
		}
		return leftOut(text[:at], text[at:], lost), true
	}
	head := limit * 2 / 5
	tail := len(runes) - (limit - head)
	return leftOut(string(runes[:head]), string(runes[tail:]), uint64(len(string(runes[head:tail])))+lost), true
}

// leftOut joins head and tail with a note of how many bytes are missing between them.
func leftOut(head, tail string, bytes uint64) string {
	return strings.ToValidUTF8(fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, bytes, tail), "\uFFFD")
}

// bytesFor returns how many bytes that many characters can take.
func bytesFor(characters int) uint64 { return uint64(characters) * utf8.UTFMax }

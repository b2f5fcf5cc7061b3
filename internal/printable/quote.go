// Package shellword writes texts as words that a shell reads back as they are.
package printable

import "strings"

// Quote is a text as one word of a line for a POSIX shell, in which the shell finds
// nothing to expand: no variable, no alias, no keyword.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

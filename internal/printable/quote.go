package printable

import "strings"

// Quote returns a text as one word for a POSIX shell, which expands nothing in it.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

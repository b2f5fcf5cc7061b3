package tools

import "osaurus-sandbox/internal/diff"

// maxDiff bounds a diff in an answer, in characters.
const maxDiff = 8_000

// Diff is what changed in a file, with lines around it.
func Diff(path, before, after string) (text string, cut bool) {
	return clip(diff.Unified(path, before, after), maxDiff, 0)
}

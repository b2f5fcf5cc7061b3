package tools

import "osaurus-sandbox/internal/diff"

// maxDiff bounds a diff in an answer, in characters.
const maxDiff = 8_000

// Diff returns a unified diff of two versions of a file.
func Diff(path, before, after string) (text string, cut bool) {
	return clip(diff.Unified(path, before, after), maxDiff, 0)
}
